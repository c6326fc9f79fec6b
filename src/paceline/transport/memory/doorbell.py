"""Waiting until another process has changed a word of memory that both see.

Who waits sleeps in the kernel and is woken by whoever has changed the word: one change
between processes, where a question and its answer take two, and no frame is read.

Linux's futex, on shared memory of any kind, also where the one who waits may only read it.
Words are 8 bytes, little endian; the kernel looks at the lower 4.

Waits: `wait_change`, as long as it is told to. Any thread; Python runs on meanwhile.

Source: futex(2). Only for x86-64 (`paceline.transport.memory.shared_memory.is_supported`).
"""

import ctypes
from typing import Any, Final, final

from paceline.transport.frames import ByteArray

_FUTEX: Final = 202  # the number of the system call
_WAIT, _WAKE = 0, 1
_ALL: Final = (1 << 31) - 1
_LOWER: Final = (1 << 32) - 1

_system_call: Any = ctypes.CDLL(None).syscall  # C's door: it takes what it is given


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


def wake_all(memory: ByteArray, start: int) -> None:
    """Wake all who wait for a word, in any process; it has been changed."""
    _system_call(
        ctypes.c_long(_FUTEX),
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_int(_WAKE),
        ctypes.c_int(_ALL),
        None,
        None,
        ctypes.c_int(0),
    )
