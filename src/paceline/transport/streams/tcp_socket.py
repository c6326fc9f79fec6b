"""TCP sockets: taking a port, holding it for a process to come, and reaching it.

Whoever can send packets to the port can connect, so a door here always asks for the run's
secret. What follows the proof is not encrypted: beyond this host, who can read or change
packets on the way can read or change the job's, and a door says so.

Waits: `reach_tcp`, with a deadline.
"""

import contextlib
import errno
import ipaddress
import logging
import socket
from collections.abc import Iterator
from typing import final

from paceline.errors import DeadlineExceeded, PeerLost, UsageError
from paceline.transport.address import TcpAddress
from paceline.transport.handshake import Secret
from paceline.transport.streams.door import Door

_BACKLOG = 4096

# A peer whose machine has vanished says nothing, not even that it went. Unsent bytes and an
# idle connection are both given up after about as long.
_IDLE_S = 10
_PROBE_EVERY_S = 5
_GONE_S = 25

logger = logging.getLogger("paceline.transport")


def reach_tcp(where: TcpAddress, timeout_s: float) -> socket.socket:
    """Connect to a `TcpDoor`.

    Raises:
        PeerLost: nobody listens there, or no packet gets there.
        DeadlineExceeded: nothing answers in time.
    """
    sock = _open(where)
    try:
        _connect(sock, where, timeout_s)
        _prepare(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def place_reached(sock: socket.socket) -> bytes:
    """Where a connected socket has reached its listener; see `greeting`."""
    return _place(sock.getpeername())


@contextlib.contextmanager
def hold_port(host: str) -> Iterator[TcpAddress]:
    """A free port of a host that stays free for a `TcpDoor`, also a second one after it.

    The kernel gives it to nobody else meanwhile, neither for connecting nor as any free
    one: so an address can be told before its listener runs, and kept over its restarts.

    Raises:
        UsageError: the host is not one of this machine.
    """
    with _bind(TcpAddress(host, 0)) as sock:
        yield TcpAddress(host, sock.getsockname()[1])


@final
class TcpDoor(Door):
    """A port; everybody who proves the run's secret may come in."""

    def __init__(self, where: TcpAddress, secret: Secret) -> None:
        """Take the port.

        Raises:
            UsageError: somebody listens there, or the host is not one of this machine.
        """
        sock = _bind(where)
        try:
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            address = TcpAddress(where.host, sock.getsockname()[1])
        except OSError as error:
            sock.close()
            raise _cannot_listen(where, error) from error
        super().__init__(str(address), sock, secret)
        if not address.is_loopback:
            logger.warning(
                "%s: reachable from other machines; who connects must prove the run's "
                "secret, but nothing is encrypted: use it inside a private network only",
                address,
            )

    def prepare(self, sock: socket.socket) -> None:
        """See `Door.prepare`."""
        _prepare(sock)

    def objection(self, sock: socket.socket) -> str | None:
        """None: the kernel knows nobody here; the proof decides."""
        del sock
        return None

    def origin(self, sock: socket.socket) -> str:
        """The other end's address."""
        try:
            host, port = sock.getpeername()[:2]
        except OSError:  # gone already
            return "somebody"
        return str(TcpAddress(host, port))

    def place(self, sock: socket.socket) -> bytes:
        """The address of this end."""
        return _place(sock.getsockname())

    def vacate(self) -> None:
        """Nothing to do: the port is free when the socket is closed."""
        # A socket that is shut down listens no more, whoever still waits at it.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def _open(where: TcpAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _bind(where: TcpAddress) -> socket.socket:
    """A socket with the port, not yet listening."""
    sock = _open(where)
    try:
        # Two may have a port while neither listens: one that holds it, and one to be.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            # Otherwise IPv4 comes in under addresses that its other end does not know.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((where.host, where.port))
    except OSError as error:
        sock.close()
        raise _cannot_listen(where, error) from error
    return sock


def _cannot_listen(where: TcpAddress, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"{where}: somebody listens there already; choose another port, or 0 for any"
        )
    return UsageError(f"{where}: cannot listen there: {error.strerror}")


def _connect(sock: socket.socket, where: TcpAddress, timeout_s: float) -> None:
    sock.settimeout(max(timeout_s, 1e-3))  # zero would mean: do not wait at all
    try:
        sock.connect((where.host, where.port))
    except TimeoutError as error:
        raise DeadlineExceeded(
            f"{where}: nothing answers within {timeout_s:.3g} s"
        ) from error
    except OSError as error:
        raise PeerLost(
            f"{where}: nobody listens there ({error.strerror}); its role has not started "
            "yet, or has gone"
        ) from error
    # A port of this host that nobody listens at can be the one the kernel calls from.
    if sock.getsockname() == sock.getpeername():
        raise PeerLost(f"{where}: nobody listens there (it called itself)")


def _prepare(sock: socket.socket) -> None:
    """Non-blocking, small frames at once, and an end for a peer that has vanished."""
    sock.setblocking(False)
    for level, option, value in (
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, (_GONE_S - _IDLE_S) // _PROBE_EVERY_S),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_S * 1000),
    ):
        sock.setsockopt(level, option, value)


def _place(name: tuple[str, int]) -> bytes:
    """A socket's name as bytes: both ends must come to the same ones."""
    host = ipaddress.ip_address(name[0].partition("%")[0])
    return host.packed + name[1].to_bytes(2, "big")
