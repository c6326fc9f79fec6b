"""The address chooses the transport."""

import secrets
import socket
from typing import assert_never

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
    reach_tcp,
    reach_unix,
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
        HandshakeRefused: it is another role's, is full, or
            is none of ours at all.
        DeadlineExceeded: the listener does not answer.
        UsageError: the address is none, or needs a secret.
    """
    where = parse_address(address)
    if isinstance(where, InProcessAddress):
        return connect_inprocess(address, hello, reply_type, limits, clock, timeout_s)
    requests = OpenRequests(reply_type)
    proved = _needed_secret(where, secret)
    deadline = Deadline(clock, timeout_s)
    sock, place = _reach(where, timeout_s)
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
    return StreamListener(
        _open_door(where, hello_check.secret),
        service,
        hello_check=hello_check,
        request_type=request_type,
        clock=clock,
        limits=limits,
        bounds=bounds,
    )


def _reach(
    where: UnixAddress | TcpAddress, timeout_s: float
) -> tuple[socket.socket, bytes]:
    """A connected socket, and the place that a proof names."""
    if isinstance(where, UnixAddress):
        return reach_unix(where, timeout_s), b""
    sock = reach_tcp(where, timeout_s)
    return sock, place_reached(sock)


def _open_door(where: UnixAddress | TcpAddress, secret: Secret | None) -> Door:
    needed = _needed_secret(where, secret)
    if isinstance(where, UnixAddress):
        return UnixDoor(where)
    if isinstance(where, TcpAddress):
        assert needed is not None
        return TcpDoor(where, needed)
    assert_never(where)


def _needed_secret(where: UnixAddress | TcpAddress, secret: Secret | None) -> Secret | None:
    """What is to be proved there."""
    if isinstance(where, UnixAddress):
        return None
    if secret is None:
        raise UsageError(
            f"address {str(where)!r}: TCP needs the run's secret, since everybody could "
            "connect: set PACELINE_SECRET, or use a Unix socket"
        )
    return secret
