"""Taking a socket path, also after a dead process, and giving it back.

The folder must be ours and closed to others (0700): whoever may enter it may connect. A
path left over by a process that died is taken; a path at which somebody answers is not.
"""

import os
import socket
import stat
import struct
from pathlib import Path

from paceline.errors import UsageError
from paceline.transport.address import UnixAddress

_BACKLOG = 4096


def bind_unix(address: UnixAddress) -> socket.socket:
    """A listening, non-blocking socket at this address.

    Raises:
        UsageError: the folder is missing, not ours or open to others; somebody listens at
            the path; or something else than a socket lies there.
    """
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


def file_identity(path: str) -> tuple[int, int] | None:
    """What lies at a path now: (device, inode), or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def is_same_user(sock: socket.socket) -> bool:
    """Whether the process at the other end runs as our user, by the kernel's word."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.geteuid())


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
