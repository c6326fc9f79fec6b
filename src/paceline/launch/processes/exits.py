"""Why a process ended, in words that say what to do.

Pure.
"""

import signal
from collections.abc import Sequence

from paceline.errors import (
    DISK_EXIT_CODE,
    PREEMPTED_EXIT_CODE,
    USAGE_EXIT_CODE,
    ForeignPeer,
    UsageError,
)

_CRASHES = {
    getattr(signal, name)
    for name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS")
    if hasattr(signal, name)
}
_MEMORY = (
    "MemoryError",
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA out of memory",
)
_SAVE_MEMORY = "start fewer trainers, take smaller batches, or a machine with more memory"


def exit_code_of(error: BaseException) -> int:
    """The exit code of a script that ends with this error.

    `USAGE_EXIT_CODE` if it would end so each time it is started: it asks for something that
    cannot be, or it is not of the job that it came to. Of ``sys.exit``: its own code, as
    the system keeps it.
    """
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code & 0xFF
    is_usage = isinstance(error, UsageError | ForeignPeer)
    return USAGE_EXIT_CODE if is_usage else 1


def is_crash(status: int) -> bool:
    """Whether a process ended of its own doing, and badly.

    Being killed from outside is none: the kernel does so when memory runs out, an operator
    or a cloud when the machine is wanted back. A status below zero is a signal's number.
    """
    if status >= 0:
        return status not in {0, PREEMPTED_EXIT_CODE}
    return -status in _CRASHES


def describe_exit(status: int) -> str:
    """An exit status in words: ``exit code 1``, ``signal SIGKILL``."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def explain_exit(status: int, last_lines: Sequence[str], error: str = "") -> str:
    """How a process ended that wrote these lines last, and what that means.

    ``error``: what its script has ended with, in a line, where that is known.
    """
    said = describe_exit(status)
    if status == PREEMPTED_EXIT_CODE:
        return f"{said}: it was told to leave"
    if status == DISK_EXIT_CODE:
        return f"{said}: the disk of the job folder takes nothing (full, or read-only)"
    if any(sign in line for line in last_lines for sign in _MEMORY):
        return f"{said}: memory ran out; {_SAVE_MEMORY}"
    if status == -signal.SIGKILL:
        return f"{said}: killed from outside; if memory ran out, {_SAVE_MEMORY}"
    if status < 0 and is_crash(status):
        return f"{said}: it crashed in native code; its log has the stacks"
    error = error or _error_in(last_lines)
    return f"{said}: {error}" if status > 0 and error else said


def _error_in(lines: Sequence[str]) -> str:
    """The first line of what the last traceback says; without one, nothing."""
    error, is_traced = "", False
    for line in lines:
        if line.startswith("Traceback"):
            error, is_traced = "", True
        elif is_traced and not error and not line.startswith(" "):
            error = line
    return error
