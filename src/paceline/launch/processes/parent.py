"""What the kernel is asked for: a process's name, its end, its death with its parent.

No process of a job outlives its launcher.

The kernel sends the signal when the *thread* that started the process ends, so a
launcher starts its children in the thread that lives as long as itself. The request
survives ``exec``, but not ``fork``: each process makes its own. A parent that died
before the request was made is noticed by its id.

Waits: for nothing. Source: prctl(2), PR_SET_PDEATHSIG; proc(5).
"""

import ctypes
import os
import select
import signal
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def die_with_parent(parent: int, death: signal.Signals) -> None:
    """Have the kernel send ``death`` to this process when its parent dies.

    It is sent at once if the parent is gone already.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(PR_SET_PDEATHSIG, int(death))
    if os.getppid() != parent:
        os.kill(os.getpid(), death)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that its parent has not reaped has."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended = select.poll()  # select(2) knows no more than 1,024 open files
        ended.register(pidfd, select.POLLIN)
        return bool(ended.poll(0))
    finally:
        os.close(pidfd)


def signs_of_life(pid: int) -> int | None:
    """A number that grows with whatever a process does; None when there is no such process.

    Its computing, in ticks of the kernel's clock, and how often its main thread was
    scheduled. It stands still in a process that was stopped, or that waits for one thing.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    switches = sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return switches + int(fields[11]) + int(fields[12])


def name_process(name: str) -> None:
    """Name this process for ``ps -o comm`` and ``top``; 15 bytes of the name count."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()))


def _prctl(option: int, value: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
