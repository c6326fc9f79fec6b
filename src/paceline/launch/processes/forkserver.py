"""Starts processes in milliseconds: one process imports torch, the others are its forks.

::

    launcher --spawn--> fork server --fork--> coordinator, servers, trainers

Importing torch costs seconds, for each process of a job and again for each restart; a
fork costs milliseconds and shares the memory of what was imported. A fork server that
dies takes what it forked with it, like any death of many; the next start has a new one,
unless `DEATHS_IN_A_ROW` have died before they had started anything.
Whatever was forked is reaped by its own fork server, never by a later one.

Waits: `ForkServer.start` and reaping, `ANSWER_S` at most. For one thread, which lives as
long as the processes do (see `paceline.launch.processes.parent`).
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

from paceline.errors import FrameRefused, JobFailed, PeerLost, TransportError
from paceline.launch.job import KEPT_MEMORY, Command
from paceline.launch.processes.forked import (
    ANSWERS,
    LIMITS,
    PRELOADED,
    Answer,
    Failed,
    Fork,
    Forked,
    Ready,
    Reap,
    Reaped,
    Says,
)
from paceline.launch.processes.process import GONE_S, Child, log_size, spawn, wait_any
from paceline.timing import Clock, Deadline
from paceline.transport.streams import FrameChannel

ANSWER_S = 30.0  # forking is a matter of milliseconds; a machine may be suspended
DEATHS_IN_A_ROW = 4  # as many as a role may have without progress
IMPORT_S = 600.0  # torch from a cold network disk, on a slow machine, and then some


@final
class ForkServer:
    """Forks processes that have everything imported."""

    def __init__(
        self,
        environment: Mapping[str, str],
        log: Path,
        clock: Clock,
        preloaded: Sequence[str] = PRELOADED,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Begin to import ``preloaded``.

        ``environment`` is what imports may depend on (a forked process has its own);
        ``log`` is where its own output goes: nothing, unless something is wrong; ``say``
        tells users what takes long.

        Raises:
            JobFailed: it could not be started.
        """
        self._environment = {**KEPT_MEMORY, **environment, "PYTHONUNBUFFERED": "1"}
        self._log = log
        self._clock = clock
        self._preloaded = preloaded
        self._say = say
        self.has_started = False  # a process, once
        self._deaths = 0  # of those in a row that were ready and started nothing
        self._open()

    @property
    def pid(self) -> int:
        """The process whose children are what it forked."""
        return self._generation.process.pid

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        """Start a role's process; None while there is nothing to fork from yet.

        Raises:
            JobFailed: it cannot be started.
        """
        if not self._is_ready():
            return None
        log_start = log_size(log)
        generation = self._generation
        answer = generation.ask_fork(_fork_request(command, log))
        if isinstance(answer, Failed):
            raise JobFailed(f"{role} could not be forked: {answer.reason}")
        if answer is None:
            return None  # it died; the next call begins anew
        self._deaths, self.has_started = 0, True
        try:
            return Child(role, _ForkedProcess(answer.pid, generation), log, log_start)
        except ProcessLookupError:
            return None  # it died with its fork server, and somebody else has reaped it

    def close(self) -> None:
        """Kill the fork server, which has nothing to save; what it forked has ended.

        Raises:
            JobFailed: it is still there (uninterruptible in the kernel).
        """
        self._generation.end()

    def _open(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(ANSWER_S)
        with theirs:
            descriptor = theirs.fileno()
            # -P: a file in the working folder must not shadow a module of the house.
            python = [sys.executable, "-P", "-m", "paceline.launch.processes.forked"]
            try:
                process = spawn(
                    "fork server",
                    [*python, str(descriptor), str(os.getpid()), *self._preloaded],
                    self._environment,
                    self._log,
                    pass_fds=(descriptor,),
                )
            except JobFailed:
                ours.close()
                raise
        self._generation = Generation(process, ours)
        self._import_by = Deadline(self._clock, IMPORT_S)

    def _is_ready(self) -> bool:
        """Whether there is something to fork from; a dead fork server is replaced.

        Raises:
            JobFailed: the imports failed, or take for ever; or it dies again and again.
        """
        generation = self._generation
        for (
            said
        ) in generation.look_ready():  # first: one that died since may have been ready
            self._say(said)
        if generation.has_ended():
            if not generation.is_ready:
                words = generation.last_words()
                raise JobFailed(f"what all processes need cannot be imported:\n{words}")
            self._deaths += 1
            if self._deaths >= DEATHS_IN_A_ROW:
                raise JobFailed(
                    f"the process that starts all others died {self._deaths} times in a "
                    "row before it had started one, as when something kills it or memory "
                    f"runs out; the end of {self._log}:\n{generation.last_words()}"
                )
            self._open()
        elif not generation.is_ready and self._import_by.is_over():
            generation.end()
            raise JobFailed(
                f"what all processes need was not imported within {IMPORT_S:g} s; the end "
                f"of {self._log}:\n{generation.last_words()}"
            )
        return self._generation.is_ready


@final
class Generation:
    """One process of the fork server, with the channel to it: whatever it forked is its.

    Once it is not understood (no answer in time, an unexpected one), it is killed: a late
    answer would be taken for the next one.
    """

    def __init__(self, process: Child, channel: socket.socket) -> None:
        """It is not ready yet; process and channel (with a time-out) are ended here."""
        self.process = process
        self.is_ready = False
        self._channel = FrameChannel(channel, ANSWERS, LIMITS, "the fork server")
        self._is_over = False  # reaped

    def look_ready(self) -> list[str]:
        """Note if it has said that it is ready, and what it has said before; no wait."""
        said = []
        while not self._is_over and not self.is_ready and _has_data(self._channel):
            answer = self._receive()
            if isinstance(answer, Says):
                said.append(answer.text)
            elif isinstance(answer, Ready):
                self.is_ready = True
            else:
                self.end()
        return said

    def has_ended(self) -> bool:
        """Whether the fork server is dead, and with it whatever it forked."""
        if not self._is_over and wait_any([self.process], 0.0):
            self.end()
        return self._is_over

    def ask_fork(self, request: Fork) -> Forked | Failed | None:
        """Have a process forked; None from a dead fork server.

        Raises:
            JobFailed: the request is too long.
        """
        answer = self._ask(request)
        if isinstance(answer, Forked | Failed):
            return answer
        self.end()
        return None

    def reap(self, pid: int) -> int:
        """Take leave of an ended process that was forked here; its status is told.

        How a process ended whose fork server died, nobody knows: SIGKILL is said.
        """
        answer = None if self.has_ended() else self._ask(Reap(pid))
        if isinstance(answer, Reaped):
            return answer.status
        self.end()
        return -signal.SIGKILL

    def end(self) -> None:
        """Kill and reap it, unless that is done; the kernel kills what it forked.

        Raises:
            JobFailed: it is still there (uninterruptible in the kernel).
        """
        if self._is_over:
            return
        self.process.signal(signal.SIGKILL)
        if not wait_any([self.process], GONE_S):
            pid = self.process.pid
            raise JobFailed(f"killed, but not gone after {GONE_S:.0f} s: fork server {pid}")
        self.process.reap()
        self._channel.close()
        self._is_over = True

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.process.last_lines())

    def _ask(self, request: Fork | Reap) -> Answer | None:
        try:
            self._channel.send(request)
        except FrameRefused as error:
            raise JobFailed(
                "a process needs an environment and arguments of at most "
                f"{LIMITS.frame_bytes:,} bytes: pass large things in files ({error})"
            ) from error
        except PeerLost:  # a time-out is one
            return None
        return self._receive()

    def _receive(self) -> Answer | None:
        try:
            return self._channel.receive().message
        except TransportError:
            return None


class _ForkedProcess(NamedTuple):
    pid: int
    generation: Generation

    def wait(self, timeout: float | None) -> int:
        del timeout  # it has ended
        return self.generation.reap(self.pid)


def _fork_request(command: Command, log: Path) -> Fork:
    return Fork(
        tuple(os.fsencode(argument) for argument in command.script),
        {os.fsencode(k): os.fsencode(v) for k, v in command.environment.items()},
        os.fsencode(log),
        command.is_module,
    )


def _has_data(channel: FrameChannel[Answer]) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))
