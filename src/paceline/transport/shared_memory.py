"""Memory that processes of one host may share, unless their user says no.

It is an anonymous file (`memfd_create`): no name that could be left over, gone with the
last process that maps it; and sealed, so that nobody can shrink it under a reader. What is
lent is written by who has made it, and read by others of the same user, who find it by the
owner's process and descriptor number; whether it is the right one, its contents must say
(a key).

Who waits until another process has changed a word of it sleeps in the kernel, and is woken
by whoever has changed it: one change between processes, where a question and its answer
take two, and no frame is read. It is Linux's futex (futex(2)), also where the one who waits
may only read; words are 8 bytes, little endian, of which the kernel looks at the lower 4.

``PACELINE_SHARED_MEMORY=off`` has everything travel through sockets: where memory that
several processes see counts more than once against a limit, or to compare. What it says
is looked at when a connection or a part is made.

Waits: `wait_change`, as long as it is told to; Python runs on meanwhile. Any thread.
"""

import contextlib
import ctypes
import functools
import mmap
import os
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from paceline.errors import UsageError
from paceline.transport.frames import ByteArray, byte_array

try:
    import fcntl
except ImportError:  # Windows: `is_supported` says no
    fcntl = None  # type: ignore[assignment]

SHARED_MEMORY = "PACELINE_SHARED_MEMORY"
# F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW of Linux: nobody can change how long it is.
STAYS_AS_LONG: Final = 0x0001 | 0x0002 | 0x0004


def may_share_memory(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the user lets processes share memory.

    Raises:
        UsageError: the variable is neither ``on`` nor ``off``.
    """
    chosen = environ.get(SHARED_MEMORY, "on")
    if chosen not in {"on", "off"}:
        raise UsageError(
            f"{SHARED_MEMORY}: expected 'on' or 'off', got {chosen!r}; unset it to share "
            "memory where that can be done"
        )
    return chosen == "on"


def sealed_memory(num_bytes: int, seals: int) -> tuple[int, ByteArray]:
    """An anonymous file of zeros, sealed once it is mapped: its descriptor, its memory.

    Raises:
        OSError: the system has no such files, or no memory for one.
    """
    name = f"paceline-{os.getpid()}"  # seen in /proc/*/maps: whose it is
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, num_bytes)
        memory = byte_array(memoryview(mmap.mmap(fd, num_bytes)))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(fd)
        raise
    return fd, memory


def seals_of(fd: int) -> int:
    """The seals of a file that may be anything.

    Raises:
        OSError: it is no file that could be sealed.
    """
    return fcntl.fcntl(fd, fcntl.F_GET_SEALS)


_SEALS: Final = STAYS_AS_LONG | 0x0010  # F_SEAL_FUTURE_WRITE, Linux 5.1


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
        # The descriptor is there until `close`.
        self.fd, self.array = sealed_memory(num_bytes, _SEALS)

    def close(self) -> None:
        """Let nobody else find it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()


def find_memory(pid: int, fd: int, num_bytes: int) -> ByteArray | None:
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
        if seals_of(found) & _SEALS != _SEALS:
            return None
        if os.fstat(found).st_size != num_bytes:
            return None
        return byte_array(memoryview(mmap.mmap(found, num_bytes, prot=mmap.PROT_READ)))
    except OSError:
        return None
    finally:
        os.close(found)


_FUTEX: Final = 202  # the number of the system call
_WAIT, _WAKE = 0, 1
_ALL: Final = (1 << 31) - 1
_LOWER: Final = (1 << 32) - 1


def _door(library: type[ctypes.CDLL]) -> Any:  # noqa: ANN401  (it takes what it is given)
    """C's door to the kernel; None where there is none, and nothing is shared."""
    try:
        return library(None).syscall
    except (AttributeError, OSError, TypeError):
        return None


_system_call = _door(ctypes.CDLL)
_short_call = _door(ctypes.PyDLL)  # of calls that end at once Python need not let go


@final
class _TimeSpan(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def wait_change(memory: ByteArray, start: int, seen: int, timeout_s: float) -> None:
    """Wait while a word is what was ``seen``; it may still be so afterwards.

    The word lies in ``memory`` from ``start`` on, a multiple of 8. One that is something
    else by now is not waited for.
    """
    assert start % 8 == 0
    assert start + 8 <= memory.nbytes
    span = _TimeSpan(int(timeout_s), int(timeout_s % 1 * 1e9))
    _system_call(
        ctypes.c_long(_FUTEX),
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_int(_WAIT),
        ctypes.c_uint32(seen & _LOWER),
        ctypes.byref(span),
        None,
        ctypes.c_int(0),
    )


def bell_of(memory: ByteArray, start: int) -> Callable[[], object]:
    """What wakes all who wait for a word, in any process, once it has been changed.

    The memory has to outlive it.
    """
    return functools.partial(
        _short_call,
        ctypes.c_long(_FUTEX),
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_int(_WAKE),
        ctypes.c_int(_ALL),
        None,
        None,
        ctypes.c_int(0),
    )
