"""The address chooses the transport."""

from paceline.timing import Clock
from paceline.transport.address import InProcessAddress, parse_address
from paceline.transport.connection import Connection, MessageType
from paceline.transport.frames import DATA_LIMITS, Limits
from paceline.transport.handshake import Hello, HelloCheck
from paceline.transport.inprocess import InProcessListener, connect_inprocess
from paceline.transport.listener import DEFAULT_BOUNDS, Bounds, Listener, RequestType
from paceline.transport.service import Service
from paceline.transport.sockets import connect_unix
from paceline.transport.unix_listener import UnixListener


def connect(
    address: str,
    hello: Hello,
    reply_type: MessageType,
    limits: Limits,
    clock: Clock,
    timeout_s: float,
) -> Connection:
    """Connect to a listener and shake hands; see `connect_unix` for what it raises.

    Waits: for the listener to answer, at most ``timeout_s``.
    """
    if isinstance(parse_address(address), InProcessAddress):
        return connect_inprocess(address, hello, reply_type, limits, clock, timeout_s)
    return connect_unix(address, hello, reply_type, limits, clock, timeout_s)


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
        UsageError: the address cannot be taken.
    """
    if isinstance(parse_address(address), InProcessAddress):
        return InProcessListener(
            address,
            service,
            hello_check=hello_check,
            request_type=request_type,
            limits=limits,
        )
    return UnixListener(
        address,
        service,
        hello_check=hello_check,
        request_type=request_type,
        clock=clock,
        limits=limits,
        bounds=bounds,
    )
