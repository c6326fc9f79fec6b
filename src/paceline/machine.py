"""What this machine is called in the job, and what its system lets a process do.

A job in one process needs nothing that only Linux has; processes of a job do.

A lock of a file belongs to an open descriptor and falls with its process, whatever ends it.
Linux and macOS lock the file; Windows a byte of it, far behind its end, so that everybody
can read it. Where there is neither, nothing can be held, and it is said.

Reads the environment: ``PACELINE_HOST``, which an agent sets for its processes, and what
SLURM calls the machine, in a job of SLURM's.
"""

import importlib
import os
import platform
import select
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final

from paceline.errors import UsageError

HOST = "PACELINE_HOST"
SLURM_NAME = "SLURMD_NODENAME"
# Flags of `os.open`, where there are such: no line ends are changed, and no child has it;
# no link is followed.
AS_BYTES: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_BYTE: Final = 1 << 30  # the one that Windows locks
_NEEDED: Final = {  # {what several processes are made of: where it is found}
    "forks": (os, "fork"),
    "epoll": (select, "epoll"),
    "process descriptors": (os, "pidfd_open"),
    "Unix sockets": (socket, "AF_UNIX"),
}

LINKS: Final = ("epoll", "Unix sockets")  # what links between processes are made of


def machine_name() -> str:
    """The name that its agent has given to it, or SLURM, or else its own."""
    environ = os.environ
    return environ.get(HOST) or environ.get(SLURM_NAME) or socket.gethostname()


def lacking(needed: Iterable[str] = _NEEDED) -> list[str]:
    """What processes of a job are made of, and this system does not have."""
    return [name for name in needed if not hasattr(*_NEEDED[name])]


def require_linux(
    what: str,
    instead: str = "; `python train.py` runs here in one process",
    needed: Iterable[str] = _NEEDED,
) -> None:
    """Let this be a system that processes of a job can run on, or has what is ``needed``.

    Raises:
        UsageError: it lacks something; what runs here all the same.
    """
    if missing := lacking(needed):
        raise UsageError(
            f"{what} needs Linux: {platform.system() or 'this system'} has no "
            f"{', no '.join(missing)}{instead}"
        )


def num_cores() -> int:
    """How many cores this process may use; where nobody tells, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def own_user() -> int | None:
    """The number of this process's user, as files have it; None where they have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def at_fork(
    *,
    before: Callable[[], object] = lambda: None,
    after_in_parent: Callable[[], object] = lambda: None,
    after_in_child: Callable[[], object] = lambda: None,
) -> None:
    """Have these called around each fork; where there are none, never."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=before, after_in_parent=after_in_parent, after_in_child=after_in_child
        )


def hold_file(descriptor: int) -> None:
    """Be the only one who holds this file, until the descriptor is closed.

    Raises:
        BlockingIOError: somebody else holds it.
        OSError: files of this system, or of this file system, cannot be held.
    """
    try:
        import fcntl  # noqa: PLC0415  (Windows has none)
    except ImportError:
        _hold_byte(descriptor)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _hold_byte(descriptor: int) -> None:
    try:
        msvcrt: Any = importlib.import_module("msvcrt")  # Any: typed on Windows alone
    except ImportError:
        raise OSError("this system has no locks of files") from None
    os.lseek(descriptor, _BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        raise BlockingIOError("somebody else holds it") from None
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def open_folder(path: str | os.PathLike[str], flags: int = 0) -> int | None:
    """Open a folder as a file, to hold it or to make its names durable.

    Returns:
        The descriptor; None where folders cannot be opened so.

    Raises:
        OSError: it is no folder, or not to be opened.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return None
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | AS_BYTES | flags)
