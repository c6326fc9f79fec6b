"""One supervised process: its own session and group, its own log, gone when it is said.

When the leader of a group has ended, whatever is left of it is killed *before* the leader
is reaped: until then the group's number cannot belong to anybody else. The end is noticed
through a pidfd, without polling.

Waits: `wait_any`, `end_all`. Start and end processes from one thread, which lives as long
as they do (see `paceline.launch.processes.parent`).
"""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, final

from paceline.errors import JobFailed
from paceline.timing import Clock, Deadline

GONE_S = 10.0  # a killed process that is not gone by then is stuck in the kernel
LOOK_EVERY_S = 0.2  # at whether somebody is in a hurry
LAST_BYTES = 16384


class Process(Protocol):
    """A process as whoever started it knows it: `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Its number."""

    def wait(self, timeout: float | None) -> int:
        """Reap it; its exit status, below zero the number of a signal."""


class Watched(Protocol):
    """A running process that a launcher watches, here or on another host."""

    role: str
    pid: int
    lost_with: str  # the host that was lost with it, if that is how it ended

    def fileno(self) -> int:
        """Readable once the process has ended, until `reap`."""

    def reap(self) -> int:
        """Take leave of an ended process: its exit status, below zero a signal's number."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that it has started, too."""

    def tell_to_leave(self) -> None:
        """SIGTERM to the process itself; what it has started is its own to end."""

    def last_lines(self, count: int = 20) -> list[str]:
        """The last lines that it wrote to its log."""


_W = TypeVar("_W", bound=Watched)


def spawn(
    role: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    pass_fds: Sequence[int] = (),
) -> "Child":
    """Start a command in a session and group of its own.

    Raises:
        JobFailed: it could not be started.
    """
    log_start = log_size(log)
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
    except OSError as error:
        raise JobFailed(f"{role} could not be started: {error}") from error
    return Child(role, process, log, log_start)


def log_size(log: Path) -> int:
    """Where the next line of a log begins, in bytes."""
    return log.stat().st_size if log.exists() else 0


@final
class Child:
    """A process; its standard output and error are appended to its log."""

    def __init__(self, role: str, process: Process, log: Path, log_start: int) -> None:
        """Supervise a process that was started just now, and not reaped.

        It leads its own session and group; its log had ``log_start`` bytes before.
        """
        self.role = role
        self.pid = process.pid
        self.lost_with = ""  # this machine is never lost to itself
        self._process = process
        self._log, self._log_start = log, log_start
        self._status: int | None = None
        self._pidfd = os.pidfd_open(self.pid)

    def fileno(self) -> int:
        """The pidfd: readable once the process has ended, until `reap`."""
        return self._pidfd

    def reap(self) -> int:
        """Take leave of an ended process; whatever is left of its group is killed.

        Its exit status is returned; below zero it is the number of the signal.
        """
        if self._status is None:
            self.signal(signal.SIGKILL)
            self._status = self._process.wait(GONE_S)
            os.close(self._pidfd)
        return self._status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; one that is gone is left alone."""
        if self._status is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return

    def tell_to_leave(self) -> None:
        """SIGTERM to the process itself; what it has started is its own to end."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def last_lines(self, count: int = 20) -> list[str]:
        """The last lines that this process (not an earlier one) wrote to its log.

        None of them if there is no log: a user may remove it, and a process may die
        before it opens it.
        """
        try:
            with self._log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._log_start, size - LAST_BYTES))
                return file.read().decode(errors="replace").splitlines()[-count:]
        except FileNotFoundError:
            return []


def wait_any(children: Iterable[_W], timeout_s: float) -> list[_W]:
    """Wait until a process has ended; the ended ones, to be reaped, are returned."""
    by_fd = {child.fileno(): child for child in children}
    poll = select.poll()
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    return [by_fd[fd] for fd, _ in poll.poll(max(0.0, timeout_s) * 1000)]


def end_all(
    children: Iterable[Watched],
    grace_s: float,
    clock: Clock,
    hurry: Callable[[], bool] = lambda: False,
) -> dict[str, int]:
    """End processes: SIGTERM to all groups at once, after ``grace_s`` SIGKILL.

    Once ``hurry``, looked at while waiting, is true, the grace is over.

    Returns:
        {role: exit status}; all are gone.

    Raises:
        JobFailed: a killed process is still there (uninterruptible in the kernel).
    """
    left = list(children)
    ended: dict[str, int] = {}
    for number, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GONE_S)):
        for child in left:
            child.signal(number)
        deadline = Deadline(clock, seconds)
        while left and not deadline.is_over():
            for child in wait_any(left, min(LOOK_EVERY_S, deadline.remaining_s())):
                ended[child.role] = child.reap()
                left.remove(child)
            if number is signal.SIGTERM and hurry():
                break
    if left:
        pids = ", ".join(f"{child.role} (pid {child.pid})" for child in left)
        raise JobFailed(f"killed, but not gone after {GONE_S:.0f} s: {pids}")
    return ended
