"""Runs a program with what another system's Python has, as far as paceline sees.

``python -m tests.system.without_linux SYSTEM PROGRAM [ARGUMENTS]``, where SYSTEM is
``Windows`` or ``Darwin``, and PROGRAM a script, or ``paceline``.

There is only Linux here: what is taken away is taken from paceline's own modules, and
libraries, which are other files on another system, keep it. Each `import` of a module of
paceline's of `os`, `signal` ... is answered by one that lacks names, or not at all. It says
nothing of how calls that are there behave otherwise, but for folders, which Windows does
not open as files.
"""

import builtins
import ctypes
import importlib
import os
import runpy
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

# Libraries load before anything is missing; those of a script are slow.
LIBRARIES = ("fsspec", "msgspec", "psutil", "rich.console", "typer")
OF_SCRIPTS = ("numba", "safetensors.torch", "torch")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# No other system has these; nor do macOS's Python 3.11 to 3.13.
NOT_ON_A_MAC = {
    "os": _names("""
    memfd_create MFD_CLOEXEC MFD_ALLOW_SEALING eventfd eventfd_write
    EFD_NONBLOCK EFD_CLOEXEC sched_getaffinity pidfd_open posix_fadvise
    posix_fallocate O_DIRECT O_TMPFILE O_PATH getrandom
    """),
    "select": _names("""
    epoll EPOLLIN EPOLLOUT EPOLLONESHOT POLLRDHUP
    """),
    "socket": _names("""
    SO_PEERCRED TCP_USER_TIMEOUT TCP_INFO MSG_NOSIGNAL MSG_CMSG_CLOEXEC
    SO_BINDTODEVICE
    """),
    "resource": _names("""
    RUSAGE_THREAD
    """),
    "fcntl": _names("""
    F_ADD_SEALS F_GET_SEALS F_SEAL_SHRINK F_SEAL_GROW F_SEAL_SEAL
    F_SEAL_WRITE F_SETPIPE_SZ
    """),
    "time": _names("""
    CLOCK_BOOTTIME pthread_getcpuclockid
    """),
    "signal": _names("""
    SIGPWR SIGRTMIN SIGRTMAX SIGPOLL SIGSTKFLT
    """),
}
NOT_ON_WINDOWS = {
    "os": NOT_ON_A_MAC["os"]
    + _names("""
    fork forkpty register_at_fork geteuid getuid getgid getegid O_CLOEXEC
    O_DIRECTORY O_NOFOLLOW O_NONBLOCK pread pwrite killpg setsid getpgid
    setpgid WNOHANG waitid statvfs uname chown fchown mkfifo pipe2 preadv
    writev sysconf getloadavg nice sendfile openpty ttyname readv umount
    """),
    "select": NOT_ON_A_MAC["select"]
    + _names("""
    poll POLLIN POLLOUT POLLHUP POLLERR
    """),
    "socket": NOT_ON_A_MAC["socket"]
    + _names("""
    AF_UNIX CMSG_SPACE CMSG_LEN SCM_RIGHTS SO_REUSEPORT sethostname
    """),
    "signal": NOT_ON_A_MAC["signal"]
    + _names("""
    SIGHUP SIGUSR1 SIGUSR2 SIGKILL SIGSTOP SIGCONT SIGCHLD SIGQUIT SIGBUS
    SIGSYS SIGALRM SIGPIPE SIGWINCH SIGTSTP pthread_kill pthread_sigmask
    SIG_BLOCK SIG_UNBLOCK sigwait setitimer alarm pause sigtimedwait
    sigpending siginterrupt
    """),
    "mmap": _names("""
    MAP_SHARED MAP_PRIVATE PROT_READ PROT_WRITE MAP_ANONYMOUS
    """),
    "time": NOT_ON_A_MAC["time"]
    + _names("""
    clock_gettime CLOCK_MONOTONIC tzset
    """),
    **dict.fromkeys(_names("fcntl resource termios tty pty pwd grp crypt"), ()),
}
MISSING: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Darwin": NOT_ON_A_MAC,
    "Windows": NOT_ON_WINDOWS,
}
O_BINARY = 1 << 30
PLATFORM = {"Darwin": "darwin", "Windows": "win32"}


class Lacking(types.ModuleType):
    """A module as another system has it: some names are missing, others say otherwise."""

    def __init__(
        self, real: Any, lacks: Sequence[str], otherwise: Mapping[str, Any]
    ) -> None:
        self.__dict__.update(_real=real, _lacks=frozenset(lacks), __name__=real.__name__)
        self.__dict__.update(otherwise)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def otherwise(system: str, name: str) -> dict[str, Any]:
    """What a module says that Linux's does not."""
    if name == "sys":
        return {"platform": PLATFORM[system]}
    if name == "platform":
        machine = "arm64" if system == "Darwin" else "AMD64"
        return {"system": lambda: system, "machine": lambda: machine}
    if system != "Windows":
        return {}
    if name == "os":

        def open_file(path: Any, flags: int, *given: Any, **named: Any) -> int:
            if os.path.isdir(path):
                raise PermissionError(13, "Permission denied", path)
            assert flags & O_BINARY, "line ends would be changed"
            return os.open(path, flags & ~O_BINARY, *given, **named)

        return {"open": open_file, "name": "nt", "O_BINARY": O_BINARY}
    if name == "ctypes":

        def library(name: str | None, *given: Any, **named: Any) -> Any:
            if name is None:
                raise TypeError("expected str, got None")
            return ctypes.CDLL(name, *given, **named)

        return {"CDLL": library, "PyDLL": library}
    return {}


class Msvcrt(types.ModuleType):
    """Windows's locks of bytes, by those of Linux that hold the open file alone."""

    LK_NBLCK = 2

    def locking(self, descriptor: int, mode: int, num_bytes: int) -> None:
        import fcntl  # noqa: PLC0415

        assert (mode, num_bytes) == (self.LK_NBLCK, 1)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) > os.fstat(descriptor).st_size
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None


def take_away(system: str) -> None:
    """From now on paceline's modules get what that system has."""
    missing, real_import, known = MISSING[system], builtins.__import__, {}
    if system == "Windows":
        sys.modules["msvcrt"] = Msvcrt("msvcrt")

    def found(name: str) -> Any:
        lacks = missing.get(name)
        if lacks == ():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in known:
            real = real_import(name)
            known[name] = Lacking(real, lacks or (), otherwise(system, name))
        return known[name]

    names = {*missing, "sys", "platform", "ctypes"}

    def import_for(name: str, *given: Any, **more: Any) -> Any:
        by = (given[0] if given else more.get("globals")) or {}
        is_ours = str(by.get("__name__")).partition(".")[0] == "paceline"
        return (
            found(name) if is_ours and name in names else real_import(name, *given, **more)
        )

    builtins.__import__ = import_for


def main(system: str, program: str, *arguments: str) -> None:
    is_command = program == "paceline"
    for library in LIBRARIES if is_command else (*LIBRARIES, *OF_SCRIPTS):
        importlib.import_module(library)
    take_away(system)
    sys.argv = [program, *arguments]
    if is_command:
        runpy.run_module("paceline.cli.main", run_name="__main__")
    else:
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
