"""Unix sockets: taking a path, also after a dead process, and reaching it.

The folder must be ours and closed to others (0700): whoever may enter it may connect. A
path left over by a process that died is taken; a path at which somebody answers is not.

Waits: `reach_unix`, with a deadline.
"""

import os
import socket
import stat
import struct
from pathlib import Path
from typing import final

from paceline.errors import DeadlineExceeded, PeerLost, UsageError
from paceline.transport.address import UnixAddress
from paceline.transport.streams.door import Door
from paceline.transport.streams.pieces import prepare

_BACKLOG = 4096


def reach_unix(where: UnixAddress, timeout_s: float) -> socket.socket:
    """Connect to a `UnixDoor`.

    Raises:
        PeerLost: nobody listens there.
        DeadlineExceeded: somebody does, but accepts nobody in time.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connect(sock, where, timeout_s)
    except BaseException:
        sock.close()
        raise
    prepare(sock)
    return sock


def _connect(sock: socket.socket, where: UnixAddress, timeout_s: float) -> None:
    """Connect; a full backlog is waited for by the kernel, which a time-out bounds."""
    whole = int(timeout_s)
    timeval = struct.pack("@ll", whole, max(1, int((timeout_s - whole) * 1e6)))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
    try:
        sock.connect(where.path)
    except BlockingIOError as error:
        raise DeadlineExceeded(
            f"{where}: the listener accepts nobody within {timeout_s:.3g} s"
        ) from error
    except OSError as error:
        raise PeerLost(
            f"{where}: nobody listens there ({error.strerror}); its role has not started "
            "yet, or has gone"
        ) from error


@final
class UnixDoor(Door):
    """A path in a folder that is only ours; only our user may come in."""

    def __init__(self, where: UnixAddress) -> None:
        """Take the path.

        Raises:
            UsageError: the folder is missing, not ours or open to others; somebody listens
                at the path; or something else than a socket lies there.
        """
        super().__init__(str(where), _bind(where), None)
        self._path = where.path
        self._file = _file_identity(where.path)

    def prepare(self, sock: socket.socket) -> None:
        """See `Door.prepare`."""
        prepare(sock)

    def objection(self, sock: socket.socket) -> str | None:
        """Nobody but our own user, by the kernel's word."""
        _, uid, _ = _credentials(sock)
        if uid == os.geteuid():
            return None
        return "only the user who runs the job may connect"

    def origin(self, sock: socket.socket) -> str:
        """The process at the other end."""
        pid, uid, _ = _credentials(sock)
        return f"process {pid} of user {uid}"

    def place(self, sock: socket.socket) -> bytes:
        """Nowhere: nothing is proved here."""
        del sock
        return b""

    def vacate(self) -> None:
        """Remove the path, unless somebody else's socket lies there by now."""
        if _file_identity(self._path) == self._file:
            os.unlink(self._path)


def _bind(address: UnixAddress) -> socket.socket:
    path = Path(address.path)
    _check_folder(address, path.parent)
    _remove_stale(address, path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(address.path)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise UsageError(f"{address}: cannot listen there: {error.strerror}") from error
    return sock


def _file_identity(path: str) -> tuple[int, int] | None:
    """What lies at a path now: (device, inode), or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _credentials(sock: socket.socket) -> tuple[int, int, int]:
    """The process, user and group at the other end, as they were when it connected."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("3i", credentials)
    return pid, uid, gid


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
