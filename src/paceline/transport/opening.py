"""The address chooses the transport."""

import secrets

import msgspec

from paceline.errors import UsageError
from paceline.machine import LINKS, require_linux
from paceline.timing import Clock, Deadline
from paceline.transport.address import (
    InProcessAddress,
    TcpAddress,
    UnixAddress,
    parse_address,
    parse_listening,
)
from paceline.transport.connection import Connection, MessageType
from paceline.transport.frames import DATA_LIMITS, Limits
from paceline.transport.greeting import Introduction
from paceline.transport.handshake import (
    NONCE_BYTES,
    OPEN,
    Hello,
    HelloCheck,
    Security,
    Way,
)
from paceline.transport.inprocess import InProcessListener, connect_inprocess
from paceline.transport.listener import DEFAULT_BOUNDS, Bounds, Listener, RequestType
from paceline.transport.requests import OpenRequests
from paceline.transport.service import Service
from paceline.transport.streams import (
    Door,
    StreamListener,
    TcpDoor,
    UnixDoor,
    connect_stream,
    place_reached,
    reach,
)


def connect(
    address: str,
    hello: Hello,
    reply_type: MessageType,
    limits: Limits,
    clock: Clock,
    timeout_s: float,
    security: Security = OPEN,
) -> Connection:
    """Connect to a listener and shake hands, within ``timeout_s``.

    ``security`` counts over TCP, and not elsewhere.

    Raises:
        PeerLost: nobody listens there (yet, or any more).
        ForeignPeer: the listener belongs to another run, version or secret; or one end
            speaks TLS, or sends checksums, and the other does not.
        HandshakeRefused: it is another role's, is full, or is none of ours at all.
        DeadlineExceeded: the listener does not answer.
        UsageError: the address is none, needs a secret, or what this system lacks.
    """
    where = parse_address(address)
    if isinstance(where, InProcessAddress):
        return connect_inprocess(address, hello, reply_type, limits, clock, timeout_s)
    require_linux(f"a connection to {address}", "", LINKS)
    requests = OpenRequests(reply_type)
    deadline = Deadline(clock, timeout_s)
    way: Way = "local"
    secret = None
    if isinstance(where, TcpAddress):
        _require_secret(where, security)
        way, secret = security.way_to(where), security.secret
    sock = reach(where, timeout_s, way)
    place = b"" if secret is None else place_reached(sock)
    mine = msgspec.structs.replace(hello, way=way)
    introduction = Introduction(mine, secret, place, secrets.token_bytes(NONCE_BYTES))
    left_s = deadline.remaining_s()
    return connect_stream(sock, address, introduction, requests, limits, clock, left_s)


def listen(
    address: str,
    service: Service,
    *,
    hello_check: HelloCheck,
    request_type: RequestType,
    clock: Clock,
    limits: Limits = DATA_LIMITS,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Listener:
    """Listen; it has begun when this returns, and ends with `Listener.close`.

    In process there is nothing to bound but the frames: ``bounds`` is not looked at.

    Raises:
        UsageError: the address cannot be taken, or needs a secret that ``hello_check``
            does not have, or TLS, for which a library is missing; or this system lacks
            what it is made of.
    """
    where = parse_listening(address)
    if isinstance(where, InProcessAddress):
        return InProcessListener(
            address,
            service,
            hello_check=hello_check,
            request_type=request_type,
            limits=limits,
        )
    require_linux(f"to listen at {address}", "", LINKS)
    door: Door
    if isinstance(where, UnixAddress):
        door = UnixDoor(where)
    else:
        _require_secret(where.reached, hello_check.security)
        door = TcpDoor(where, hello_check.security)
    return StreamListener(
        door,
        service,
        hello_check=hello_check,
        request_type=request_type,
        clock=clock,
        limits=limits,
        bounds=bounds,
    )


def _require_secret(where: TcpAddress, security: Security) -> None:
    if security.secret is None:
        raise UsageError(
            f"address {str(where)!r}: TCP needs the run's secret, since everybody could "
            "connect: set PACELINE_SECRET, or use a Unix socket"
        )
