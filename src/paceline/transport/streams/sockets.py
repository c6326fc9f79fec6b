"""Unix and TCP sockets: doors to listen at, ports held for a process, the way there.

A Unix socket's folder must be ours and closed to others (0700): whoever may enter it may
connect. A path left over by a process that died is taken; a path at which somebody answers
is not.

Whoever can send packets to a TCP port can connect, so a door there always asks for the
run's secret. Beyond this host it speaks TLS, but by word; then who can read or change
packets on the way can read or change the job's, and the door says so.

Waits: `reach`, with a deadline.
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

from paceline.errors import DeadlineExceeded, PeerLost, UsageError
from paceline.transport.address import TcpAddress, UnixAddress
from paceline.transport.handshake import OPEN, Security, Way
from paceline.transport.streams.pieces import AnySocket
from paceline.transport.streams.sealed import Sealed

if TYPE_CHECKING:
    from paceline.transport.streams.tls import Certificate

_BACKLOG = 4096
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
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, (_GONE_S - _IDLE_S) // _PROBE_EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_S * 1000),
)

logger = logging.getLogger("paceline.transport")


def reach(
    where: UnixAddress | TcpAddress, timeout_s: float, way: Way = "local"
) -> AnySocket:
    """Connect to a door; TLS is yet to be shaken hands on.

    Raises:
        PeerLost: nobody listens there, or no packet gets there.
        DeadlineExceeded: nothing answers in time, or somebody who accepts nobody.
    """
    sock = _open(where)
    try:
        _connect(sock, where, timeout_s)
        prepare(sock)
        if way == "tls":
            from paceline.transport.streams import tls  # noqa: PLC0415  (loads ssl)

            return tls.sealed(sock)
    except BaseException:
        sock.close()
        raise
    return sock


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


def own_host(towards: TcpAddress) -> str:
    """The address of this machine that its packets to another one come from.

    Raises:
        UsageError: there is no way to that machine.
    """
    family = socket.AF_INET6 if ":" in towards.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # nothing is sent
        try:
            probe.connect((towards.host, towards.port))
        except OSError as error:
            raise UsageError(
                f"{towards}: this machine has no way there ({error.strerror})"
            ) from error
        host: str = probe.getsockname()[0]
        return host


def place_reached(sock: AnySocket) -> bytes:
    """Where a connected TCP socket has reached its listener; see `Door.place`.

    Within TLS that is known later: empty.
    """
    return b"" if isinstance(sock, Sealed) else _place(sock.getpeername())


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
        sock = _bind(where)
        _listen(where, sock)
        super().__init__(str(where), sock)
        self._path = where.path
        self._file = _file_identity(where.path)

    def objection(self, sock: socket.socket) -> str | None:
        """Nobody but our own user, by the kernel's word."""
        _, uid = _process_and_user(sock)
        if uid == os.geteuid():
            return None
        return "only the user who runs the job may connect"

    def origin(self, sock: socket.socket) -> str:
        """The process at the other end."""
        pid, uid = _process_and_user(sock)
        return f"process {pid} of user {uid}"

    def vacate(self) -> None:
        """Remove the path, unless somebody else's socket lies there by now."""
        if _file_identity(self._path) == self._file:
            os.unlink(self._path)


@final
class TcpDoor(Door):
    """A port; everybody who proves the run's secret may come in."""

    def __init__(self, where: TcpAddress, security: Security) -> None:
        """Take the port.

        Raises:
            UsageError: somebody listens there, or the host is not one of this machine; or
                TLS is needed, and the library for its certificate is not installed.
        """
        way = security.way_to(where)
        self._certificate: Certificate | None = None
        if way == "tls":
            from paceline.transport.streams import tls  # noqa: PLC0415  (loads ssl)

            self._certificate = tls.Certificate(str(where))
        sock = _bind(where)
        _listen(where, sock)
        address = TcpAddress(where.host, sock.getsockname()[1])
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
        """Nothing to do: the port is free when the socket is closed."""
        # A socket that is shut down listens no more, whoever still waits at it.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def _open(where: UnixAddress | TcpAddress) -> socket.socket:
    family = socket.AF_UNIX
    if isinstance(where, TcpAddress):
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _connect(
    sock: socket.socket, where: UnixAddress | TcpAddress, timeout_s: float
) -> None:
    try:
        if isinstance(where, UnixAddress):
            # A full backlog is waited for by the kernel, which a time-out bounds.
            whole = int(timeout_s)
            timeval = struct.pack("@ll", whole, max(1, int((timeout_s - whole) * 1e6)))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
            sock.connect(where.path)
            return
        sock.settimeout(max(timeout_s, 1e-3))  # zero would mean: do not wait at all
        sock.connect((where.host, where.port))
    except BlockingIOError as error:
        raise DeadlineExceeded(
            f"{where}: the listener accepts nobody within {timeout_s:.3g} s"
        ) from error
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


def _bind(where: UnixAddress | TcpAddress) -> socket.socket:
    """A socket with the address, not yet listening."""
    sock = _open(where)
    try:
        if isinstance(where, UnixAddress):
            sock.bind(where.path)
            return sock
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


def _listen(where: UnixAddress | TcpAddress, sock: socket.socket) -> None:
    try:
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _cannot_listen(where, error) from error


def _cannot_listen(where: UnixAddress | TcpAddress, error: OSError) -> UsageError:
    if isinstance(where, TcpAddress) and error.errno == errno.EADDRINUSE:
        return UsageError(
            f"{where}: somebody listens there already; choose another port, or 0 for any"
        )
    return UsageError(f"{where}: cannot listen there: {error.strerror}")


def _place(name: tuple[str, int]) -> bytes:
    """A socket's name as bytes: both ends must come to the same ones."""
    host = ipaddress.ip_address(name[0].partition("%")[0])
    return host.packed + name[1].to_bytes(2, "big")


def _file_identity(path: str) -> tuple[int, int] | None:
    """What lies at a path now: (device, inode), or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _process_and_user(sock: socket.socket) -> tuple[int, int]:
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
