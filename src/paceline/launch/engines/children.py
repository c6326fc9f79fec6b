"""Machines that children of the launcher bring: one for each, or one for many.

::

    stdin             the run's secret, a line; once it is closed, the hosts end
    stdout, stderr    a log in the job folder

The secret is in no command line and no environment. Whoever kills the launcher closes its
ends of the pipes, and so ends its hosts. A child that has ended is not started again.

Waits: a thread, for children that end; `ChildHosts.close`, for all of them, with bounds.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple, final

from paceline.errors import UsageError
from paceline.launch.engines.bringing import Watching
from paceline.launch.engines.engine import BroughtJob
from paceline.launch.job import SECRET, read_log
from paceline.launch.processes import Child, describe_exit, end_all, wait_any
from paceline.timing import Deadline

JOIN_WITHIN = "60s"  # the launcher is there already
LOOK_EVERY_S = 0.2
LEAVE_S = 3.0  # hosts have been told that the job is over
CLOSED_S = 4.0  # longer than a host gives its processes
GRACE_S = 1.0
NOT_AGAIN = "a host that is gone is not started again"


class Bringer(NamedTuple):
    """A child: its name, which is that of its log, what it runs, how many hosts it brings.

    ``told``: what it is to users, such as "ssh to a". ``advice`` of an exit status: what
    they may look at. ``gone``: of a child that brings many, which machines have ended while
    it goes on, and how; it is given the log as it grows, {machine: how}.
    """

    name: str
    command: Sequence[str]
    told: str
    advice: Callable[[int], str]
    hosts: int = 1
    gone: Callable[[bytes], Mapping[str, str]] | None = None


def host_words(join: str, words: Sequence[str], name: str | None = None) -> list[str]:
    """What a shell elsewhere is to run, so that its machine joins at an address."""
    named = [] if name is None else ["--name", name]
    ends = ["--join-within", JOIN_WITHIN, "--end-with-stdin"]
    return ["paceline", "host", "--join", join, *named, *words, *ends]


@final
class ChildHosts(Watching):
    """The children of a launcher that bring hosts: see `Brought`."""

    def __init__(
        self,
        job: BroughtJob,
        machines: int,
        begin: Callable[[str], Sequence[Bringer]],
        coming: str,
        flag: str,
    ) -> None:
        """Nothing is started.

        Args:
            job: whose they are.
            machines: so many are to come.
            begin: what is started, once it is known where they join.
            coming: a line for the user, before they do.
            flag: which option has asked for them, for messages.
        """
        super().__init__(job, machines, "machines")
        self._begin, self._coming, self._flag = begin, coming, flag
        self._left: dict[Child, Bringer] = {}  # the thread's, until it is joined
        self._read: dict[str, int] = {}  # {bringer: bytes of its log that were looked at}
        self._missing = Counter[str]()  # {bringer: machines that are gone while it goes on}
        self._pipes: list[IO[bytes]] = []

    def start(self, join: str) -> None:
        """See `Brought`; `UsageError`: there is no such program."""
        for bringer in self._begin(join):
            self._left[self._spawn(bringer)] = bringer
        if self._left:
            self._job.say(f"paceline: {self._coming}")
            self._thread.start()

    def close(self) -> None:
        """See `Brought`: those that stay are ended, and so are their hosts."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._wait_gone(LEAVE_S)
        for pipe in self._pipes:
            pipe.close()
        self._wait_gone(CLOSED_S)
        end_all(list(self._left), GRACE_S, self._job.clock)

    def _spawn(self, bringer: Bringer) -> Child:
        log = self._job.folder.log(bringer.name)
        with log.open("ab") as output:
            log_start = self._read[bringer.name] = output.tell()
            try:
                process = subprocess.Popen(
                    bringer.command,
                    bufsize=0,
                    env=_without_secret(os.environ),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise UsageError(
                    f"{self._flag}: cannot run {bringer.command[0]}: {error.strerror}"
                ) from error
        assert process.stdin is not None
        self._pipes.append(process.stdin)
        with suppress(BrokenPipeError):  # it has ended already: its log says why
            process.stdin.write(f"{self._job.secret.text()}\n".encode())
        return Child(bringer.name, process, log, log_start)

    def _watch(self) -> None:
        while self._left and not self._over.is_set():
            for child in wait_any(list(self._left), LOOK_EVERY_S):
                if self._over.is_set():
                    return
                self._end(child, self._left.pop(child))
            for bringer in self._left.values():
                self._look(bringer)

    def _look(self, bringer: Bringer) -> None:
        """Tell who is gone while its bringer goes on."""
        if bringer.gone is None:
            return
        name, folder = bringer.name, self._job.folder
        with suppress(OSError):  # a user may remove it
            more = read_log(folder.logs, name, self._read[name])
            self._read[name] += len(more)
            for machine, how in bringer.gone(more).items():
                self._missing[name] += 1
                told = f"{machine} is gone, {name} says: {how}"
                self._gone(f"{told}; {NOT_AGAIN}", f"{told}; {folder.log(name)} has more")

    def _end(self, child: Child, bringer: Bringer) -> None:
        status, words = child.reap(), child.last_lines(5)
        told = f"{bringer.told} has ended with {describe_exit(status)}"
        last = f": {words[-1]}" if words else ""
        log, advice = self._job.folder.log(bringer.name), bringer.advice(status)
        kept = "\n".join([f"{told}; {advice}; the end of {log}:", *words])
        left = bringer.hosts - self._missing[bringer.name]
        self._gone(f"{told}{last}; {NOT_AGAIN}", kept, left)

    def _wait_gone(self, seconds: float) -> None:
        deadline = Deadline(self._job.clock, seconds)
        while self._left and not deadline.is_over():
            for child in wait_any(list(self._left), deadline.remaining_s()):
                child.reap()
                del self._left[child]


def _without_secret(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: is_ for name, is_ in environment.items() if name != SECRET}
