"""The address chooses the transport."""

import secrets

from paceline.errors import UsageError
from paceline.timing import Clock, Deadline
from paceline.transport.address import (
    InProcessAddress,
    TcpAddress,
    UnixAddress,
    parse_address,
)
from paceline.transport.connection import Connection, MessageType
from paceline.transport.frames import DATA_LIMITS, Limits
from paceline.transport.handshake import (
    NONCE_BYTES,
    Hello,
    HelloCheck,
    Introduction,
    Secret,
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
    secret: Secret | None = None,
) -> Connection:
    """Connect to a listener and shake hands, within ``timeout_s``.

    The run's secret is proved over TCP, and not used elsewhere.

    Raises:
        PeerLost: nobody listens there (yet, or any more).
        ForeignPeer: the listener belongs to another run, version or secret.
        HandshakeRefused: it is another role's, is full, or is none of ours at all.
        DeadlineExceeded: the listener does not answer.
        UsageError: the address is none, or needs a secret.
    """
    where = parse_address(address)
    if isinstance(where, InProcessAddress):
        return connect_inprocess(address, hello, reply_type, limits, clock, timeout_s)
    requests = OpenRequests(reply_type)
    deadline = Deadline(clock, timeout_s)
    proved = _needed_secret(where, secret) if isinstance(where, TcpAddress) else None
    sock = reach(where, timeout_s)
    place = b"" if proved is None else place_reached(sock)
    introduction = Introduction(hello, proved, place, secrets.token_bytes(NONCE_BYTES))
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
            does not have.
    """
    where = parse_address(address)
    if isinstance(where, InProcessAddress):
        return InProcessListener(
            address,
            service,
            hello_check=hello_check,
            request_type=request_type,
            limits=limits,
        )
    door: Door
    if isinstance(where, UnixAddress):
        door = UnixDoor(where)
    else:
        door = TcpDoor(where, _needed_secret(where, hello_check.secret))
    return StreamListener(
        door,
        service,
        hello_check=hello_check,
        request_type=request_type,
        clock=clock,
        limits=limits,
        bounds=bounds,
    )


def _needed_secret(where: TcpAddress, secret: Secret | None) -> Secret:
    if secret is None:
        raise UsageError(
            f"address {str(where)!r}: TCP needs the run's secret, since everybody could "
            "connect: set PACELINE_SECRET, or use a Unix socket"
        )
    return secret
