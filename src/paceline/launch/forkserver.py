"""Starts processes in milliseconds: one process imports torch, the others are its forks.

::

    launcher --spawn--> fork server --fork--> coordinator, servers, trainers

Importing torch costs seconds, for each process of a job and again for each restart; a
fork costs milliseconds and shares the memory of what was imported. A fork server that
dies takes what it forked with it, like any death of many; the next start has a new one.

Waits: `ForkServer.start` and reaping, `ANSWER_S` at most. For one thread, which lives as
long as the processes do (see `paceline.launch.parent`).
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

import msgspec

from paceline.errors import JobFailed
from paceline.launch.commands import Command
from paceline.launch.forked import (
    LONGEST,
    PRELOADED,
    Answer,
    Fork,
    Forked,
    Ready,
    Reap,
    Reaped,
)
from paceline.launch.process import Child, log_size, spawn, wait_any

ANSWER_S = 30.0  # forking is a matter of milliseconds; a machine may be suspended
CLOSE_S = 1.0


@final
class ForkServer:
    """Forks processes that have everything imported."""

    def __init__(
        self,
        environment: Mapping[str, str],
        log: Path,
        preloaded: Sequence[str] = PRELOADED,
    ) -> None:
        """Begin to import.

        Args:
            environment: what imports may depend on; a forked process has its own.
            log: where its own output goes; nothing, unless something is wrong.
            preloaded: the modules to import before any fork.

        Raises:
            JobFailed: it could not be started.
        """
        self._environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self._log = log
        self._preloaded = preloaded
        self._open()

    @property
    def pid(self) -> int:
        """The process whose children are what it forked."""
        return self._child.pid

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        """Start a role's process; None while there is nothing to fork from yet.

        Raises:
            JobFailed: it cannot be started.
        """
        if not self._wait_ready():
            return None
        log_start = log_size(log)
        forked = self._ask(Fork(command.script, command.environment, str(log)))
        if not isinstance(forked, Forked):
            return None  # it died; the next call begins anew
        return Child(role, _ForkedProcess(forked.pid, self), log, log_start)

    def reap(self, pid: int) -> int:
        """Take leave of an ended process; its status is told."""
        reaped = self._ask(Reap(pid))
        return reaped.status if isinstance(reaped, Reaped) else -signal.SIGKILL

    def close(self) -> None:
        """End the fork server; what it forked has ended before."""
        self._channel.close()
        if not wait_any([self._child], CLOSE_S):
            self._child.signal(signal.SIGKILL)
        self._child.reap()

    def _open(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(ANSWER_S)
        self._is_ready = False
        with theirs:
            descriptor = theirs.fileno()
            # -P: a file in the working folder must not shadow a module of the house.
            python = [sys.executable, "-P", "-m", "paceline.launch.forked"]
            self._child = spawn(
                "fork server",
                [*python, str(descriptor), str(os.getpid()), *self._preloaded],
                self._environment,
                self._log,
                pass_fds=(descriptor,),
            )

    def _wait_ready(self) -> bool:
        if wait_any([self._child], 0.0):
            self._child.reap()
            self._channel.close()
            if not self._is_ready:
                words = "\n".join(self._child.last_lines())
                raise JobFailed(f"what all processes need cannot be imported:\n{words}")
            self._open()
        if not self._is_ready and _has_data(self._channel):
            self._is_ready = isinstance(self._receive(), Ready)
        return self._is_ready

    def _ask(self, request: Fork | Reap) -> Answer | None:
        """The answer; None from a dead fork server.

        Raises:
            JobFailed: it lives and does not answer.
        """
        with suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(msgspec.msgpack.encode(request))
            return self._receive()
        return None

    def _receive(self) -> Answer | None:
        try:
            data = self._channel.recv(LONGEST)
        except TimeoutError:
            raise JobFailed(
                f"the fork server has not answered for {ANSWER_S:g} s"
            ) from None
        except ConnectionResetError:
            return None
        return msgspec.msgpack.decode(data, type=Answer) if data else None


class _ForkedProcess(NamedTuple):
    pid: int
    server: ForkServer

    def wait(self, timeout: float | None) -> int:
        del timeout  # it has ended
        return self.server.reap(self.pid)


def _has_data(channel: socket.socket) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))
