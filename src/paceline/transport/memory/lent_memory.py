"""Memory that one process writes and others of its host read.

An anonymous file (`memfd_create`): no name that could be left over, gone with the last
process that maps it. It is sealed, so that nobody can shrink it under a reader, nor write
to it but who has made it. Another process of the same user finds it by the owner's process
and descriptor number; whether it is the right one, its contents must say (a key).

Waits for nothing.
"""

import contextlib
import fcntl
import mmap
import os
import platform
import sys
from typing import Any, Final, final

import numpy as np

from paceline.transport.memory.shared_memory import may_share_memory

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_F_SEAL_FUTURE_WRITE: Final = 0x0010  # Linux 5.1; not in `fcntl` of Python 3.11
_SEALS: Final = (
    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL
)


def is_supported() -> bool:
    """Whether processes here see each other's stores in their order, and may share."""
    in_order = sys.platform == "linux" and platform.machine() == "x86_64"
    return in_order and may_share_memory()


@final
class LentMemory:
    """The owner's end; its array stays valid as long as somebody holds it."""

    def __init__(self, num_bytes: int) -> None:
        """Make zeroed memory.

        Raises:
            OSError: the system has no such files, or no memory for one.
        """
        name = f"paceline-{os.getpid()}"  # seen in /proc/*/maps: whose it is
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, num_bytes)
            self.array: Bytes = np.frombuffer(mmap.mmap(fd, num_bytes), np.uint8)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd  # until `close`

    def close(self) -> None:
        """Let nobody else find it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()


def find_memory(pid: int, fd: int, num_bytes: int) -> Bytes | None:
    """Map what another process lends, for reading.

    Returns:
        None if there is no such memory: another host, user or container, or it is gone.
    """
    try:
        # Whatever it is that has this number by now, opening it must not wait.
        found = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if fcntl.fcntl(found, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            return None
        if os.fstat(found).st_size != num_bytes:
            return None
        mapped = mmap.mmap(found, num_bytes, prot=mmap.PROT_READ)
        return np.frombuffer(mapped, np.uint8)
    except OSError:
        return None
    finally:
        os.close(found)
