"""Unix and TCP sockets: doors to listen at, and ports held for a process.

A Unix socket's folder must be ours and closed to others (0700): whoever may enter it may
connect. A path left over by a process that died is taken; a path at which somebody answers
is not.

Whoever can send packets to a TCP port can connect, so a door there always asks for the
run's secret. Beyond this host it speaks TLS, but by word; then who can read or change
packets on the way can read or change the job's, and the door says so.

A port of a range is its taker's alone, also while nobody listens there yet. For the kernel
two may have it until one listens; so takers mark it by an abstract Unix socket, which is a
name of this machine's network, as ports are, and is gone with its process.

Waits: for nothing.
"""

import contextlib
import errno
import ipaddress
import logging
import os
import socket
import stat
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

from paceline.errors import UsageError
from paceline.transport.address import TcpAddress, TcpListening, UnixAddress, is_loopback
from paceline.transport.handshake import OPEN, Security, Way
from paceline.transport.streams.pieces import AnySocket
from paceline.transport.streams.sealed import Sealed

if TYPE_CHECKING:
    from paceline.transport.streams.tls import Certificate

_BACKLOG = 4096
_EVERYWHERE = "::"  # IPv4, too
# The kernel's own default fits a small fraction of a large reply, and each refill costs two
# switches between processes; more than this only leaves the cache. Capped by `wmem_max`.
_KERNEL_BUFFER_BYTES = 1 << 20
# A peer whose machine has vanished says nothing, not even that it went. Unsent bytes and an
# idle connection are both given up after about as long.
_IDLE_S = 10
_PROBE_EVERY_S = 5
_GONE_S = 25
_TCP_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, option), value)
        for option, value in (
            ("TCP_KEEPIDLE", _IDLE_S),
            ("TCP_KEEPINTVL", _PROBE_EVERY_S),
            ("TCP_KEEPCNT", (_GONE_S - _IDLE_S) // _PROBE_EVERY_S),
            ("TCP_USER_TIMEOUT", _GONE_S * 1000),
        )
        if hasattr(socket, option)
    ),
)

logger = logging.getLogger("paceline.transport")


def prepare(sock: socket.socket) -> None:
    """Make a connected socket ready for frames: non-blocking, with room for large ones.

    Over TCP small frames go at once, and a peer that has vanished comes to an end.
    """
    sock.setblocking(False)
    if sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)
        return
    for level, option, value in _TCP_OPTIONS:
        sock.setsockopt(level, option, value)


def place_reached(sock: AnySocket) -> bytes:
    """Where a connected TCP socket has reached its listener; see `Door.place`.

    Within TLS that is known later: empty.
    """
    return b"" if isinstance(sock, Sealed) else _place(sock.getpeername())


@contextlib.contextmanager
def hold_port(where: TcpListening) -> Iterator[TcpListening]:
    """A port of those that may be taken; it stays free for a `TcpDoor`, and one after it.

    The kernel gives it to nobody else meanwhile, neither for connecting nor as any free
    one: so an address can be told before its listener runs, and kept over its restarts.

    Raises:
        UsageError: the address is none of this machine's, or no port is free.
    """
    assert where.is_range or not where.first, "one port cannot be held twice"
    with contextlib.ExitStack() as stack:
        while True:
            sock, mark = _take(where)
            stack.enter_context(sock)
            port = sock.getsockname()[1]
            if (mark := mark or _mark(port)) is not None:  # else marked at another address
                stack.enter_context(mark)
                break
        yield where.at(port)


class Door(ABC):
    """A bound, listening, non-blocking socket.

    Both ends of a connection must prove a secret of ``security``, if there is one; frames
    travel the ``way`` that it says. The address has the port that was found.
    """

    def __init__(
        self,
        address: str,
        sock: socket.socket,
        security: Security = OPEN,
        way: Way = "local",
    ) -> None:
        self.address = address
        self.socket = sock
        self.secrets = security.accepted
        self.way: Way = way

    def objection(self, sock: socket.socket) -> str | None:
        """Why an accepted socket may not even say hello; None: it may."""
        del sock
        return None

    def sealed(self, sock: socket.socket) -> AnySocket:
        """An accepted socket, prepared, as frames travel through it; it is taken over."""
        return sock

    def place(self, sock: socket.socket) -> bytes:
        """Where the other end has reached us, as it sees it too; empty: nothing is proved.

        A part of what is proved; see `paceline.transport.handshake`.
        """
        del sock
        return b""

    @abstractmethod
    def origin(self, sock: socket.socket) -> str:
        """Where an accepted socket comes from, for the log."""

    @abstractmethod
    def vacate(self) -> None:
        """Give the address back; what is connected stays so. Once."""


@final
class UnixDoor(Door):
    """A path in a folder that is only ours; only our user may come in."""

    def __init__(self, where: UnixAddress) -> None:
        """Take the path.

        Raises:
            UsageError: the folder is missing, not ours or open to others; somebody listens
                at the path; or something else than a socket lies there.
        """
        path = Path(where.path)
        _check_folder(where, path.parent)
        _remove_stale(where, path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(where.path)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            raise _cannot_listen(where, error) from error
        sock.setblocking(False)
        super().__init__(str(where), sock)
        self._path = where.path
        self._file = _file_identity(where.path)

    def objection(self, sock: socket.socket) -> str | None:
        """Nobody but our own user, by the kernel's word."""
        _, uid = peer_process(sock)
        if uid == os.geteuid():
            return None
        return "only the user who runs the job may connect"

    def origin(self, sock: socket.socket) -> str:
        """The process at the other end."""
        pid, uid = peer_process(sock)
        return f"process {pid} of user {uid}"

    def vacate(self) -> None:
        """Remove the path, unless somebody else's socket lies there by now."""
        if _file_identity(self._path) == self._file:
            os.unlink(self._path)


@final
class TcpDoor(Door):
    """A port; everybody who proves the run's secret may come in."""

    def __init__(self, where: TcpListening, security: Security) -> None:
        """Take a port.

        Raises:
            UsageError: somebody listens there, at all of a range, or the address is none of
                this machine's; or TLS is needed, and the library for its certificate is not
                installed.
        """
        way = security.way_to(where.reached)
        if way == "local" and not is_loopback(where.bound):
            raise UsageError(
                f"{where}: others can reach it, and would be told an address of this "
                "machine alone: name the one that they reach"
            )
        self._certificate: Certificate | None = None
        if way == "tls":
            from paceline.transport.streams import tls  # noqa: PLC0415  (loads ssl)

            self._certificate = tls.Certificate(str(where))
        sock, self._mark = _take(where, _BACKLOG)
        address = where.at(sock.getsockname()[1]).reached
        super().__init__(str(address), sock, security, way)
        if way != "tls" and not address.is_loopback:
            logger.warning(
                "%s: reachable from other machines, and plain, as was asked for: who "
                "connects must prove the run's secret, but who can read or change packets "
                "on the way can read or change what the job sends; use it only in a "
                "network that is private or encrypts by itself",
                address,
            )

    def sealed(self, sock: socket.socket) -> AnySocket:
        """Behind TLS, unless the link is plain or local."""
        return sock if self._certificate is None else self._certificate.seal(sock)

    def origin(self, sock: socket.socket) -> str:
        """The other end's address."""
        try:
            host, port = sock.getpeername()[:2]
        except OSError:  # gone already
            return "somebody"
        return str(TcpAddress(host, port))

    def place(self, sock: socket.socket) -> bytes:
        """The certificate of this end, or its address where it has none."""
        if self._certificate is not None:
            return self._certificate.place
        return _place(sock.getsockname())

    def vacate(self) -> None:
        """The port is free when the socket is closed."""
        # A socket that is shut down listens no more, whoever still waits at it.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if self._mark is not None:
            self._mark.close()


def _take(
    where: TcpListening, backlog: int | None = None
) -> tuple[socket.socket, socket.socket | None]:
    """A socket at the first free port, and the port's mark if it is of a range.

    It listens with a ``backlog``, and does not block then.
    """
    for port in range(where.first, where.last + 1):
        mark = _mark(port) if where.is_range else None
        if mark is None and where.is_range:
            continue
        try:
            return _bind(where.bound, port, backlog), mark
        except OSError as error:
            if mark is not None:
                mark.close()
            if not where.is_range or error.errno != errno.EADDRINUSE:
                raise _cannot_listen(TcpAddress(where.bound, port), error) from error
    raise UsageError(
        f"{where.bound}: somebody has each of its ports {where.first}-{where.last} "
        "(--ports), and each coordinator, server and host of a job needs one, and each "
        "trainer that others call: name a wider range, or end who has them (ss -ltnp "
        "tells)"
    )


def _mark(port: int) -> socket.socket | None:
    """The mark of a port, held by who has the socket; None: somebody else has it."""
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mark.bind(f"\0paceline-port-{port}")
    except OSError:
        mark.close()
        return None
    return mark


def _bind(bound: str, port: int, backlog: int | None) -> socket.socket:
    """A socket at a port, listening if there is a backlog."""
    sock = socket.socket(socket.AF_INET6 if ":" in bound else socket.AF_INET)
    try:
        # Two may have a port while neither listens: one that holds it, and one to be.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            is_v6_only = bound != _EVERYWHERE
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_v6_only)
        sock.bind((bound, port))
        if backlog is not None:
            sock.listen(backlog)
            sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _cannot_listen(where: UnixAddress | TcpAddress, error: OSError) -> UsageError:
    if isinstance(where, TcpAddress) and error.errno == errno.EADDRINUSE:
        return UsageError(
            f"{where}: somebody listens there already; choose another port, or 0 for any"
        )
    return UsageError(f"{where}: cannot listen there: {error.strerror}")


def _place(name: tuple[str, int]) -> bytes:
    """A socket's name as bytes: both ends must come to the same ones."""
    host = ipaddress.ip_address(name[0].partition("%")[0])
    # Where IPv4 comes in through an IPv6 socket its other end knows of IPv4 alone.
    host = getattr(host, "ipv4_mapped", None) or host
    return host.packed + name[1].to_bytes(2, "big")


def _file_identity(path: str) -> tuple[int, int] | None:
    """What lies at a path now: (device, inode), or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def peer_process(sock: socket.socket) -> tuple[int, int]:
    """Those at the other end, as they were when it connected."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def _check_folder(address: UnixAddress, folder: Path) -> None:
    try:
        found = folder.stat()
    except OSError as error:
        raise UsageError(f"{address}: its folder cannot be used: {error}") from error
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid() or mode & 0o077:
        raise UsageError(
            f"{address}: expected a folder of user {os.geteuid()} with mode 0700, got "
            f"user {found.st_uid} and mode {mode:04o}; others could connect"
        )


def _remove_stale(address: UnixAddress, path: Path) -> None:
    if not path.exists():
        return
    if not path.is_socket():
        raise UsageError(f"{address}: a file that is no socket lies there; it stays")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(address.path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # somebody listens, with a full backlog
    raise UsageError(f"{address}: somebody listens there already; choose another path")
