"""The actor of a host: its agent is a child of the actor's process, and ends with it.

A plain actor: its constructor and its methods run in the main thread of the process, and
the agent's life is bound to that thread. Nothing is forked but to run another program.

Ray may forget the processes of a machine that it has taken for dead: they see to it
themselves that they end with the raylet, whose children they are.

Waits: `AgentActor.look`, for as long as it is told; a thread, for the raylet's end.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, final

from paceline.errors import UsageError
from paceline.launch.job import SECRET, THREADS
from paceline.machine import machine_name

LAST_BYTES = 4096
LAST_LINES = 5
LOOK_EVERY_S = 1.0  # at who the parent is
_TETHER = "paceline.launch.engines.ray.tether"


class AgentSays(NamedTuple):
    """How an agent is: ``status`` is None while it runs; ``words``: its last lines.

    ``node`` is Ray's id of the machine where it is. Travels between processes of Ray.
    """

    node: str
    status: int | None
    words: tuple[str, ...] = ()


@final
class AgentActor:
    """An agent of a job, as Ray knows it."""

    def __init__(
        self, words: Sequence[str], secret: str, folder: str | None, threads: int
    ) -> None:
        """Start it.

        Args:
            words: what ``paceline`` is run with.
            secret: the run's, which goes through a pipe and nowhere else.
            folder: where it runs; None: where Ray has put the working folder.
            threads: of each trainer; 0: there are none.

        Raises:
            UsageError: there is no such folder on this machine.
        """
        if folder is not None and not os.path.isdir(folder):
            raise UsageError(
                f"--no-upload: there is no folder {folder} on {machine_name()}: leave the "
                "option out, and the working folder goes to all machines"
            )
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
        self._node = node_id()
        self._ended: AgentSays | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", _TETHER, str(os.getpid()), *words],
            bufsize=0,
            cwd=folder,
            env=agent_environment(os.environ, threads),
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, and says why
            self._process.stdin.write(f"{secret}\n".encode())

    def look(self, within_s: float, *, is_to_leave: bool = False) -> AgentSays:
        """How the agent has ended, if it does within some time.

        ``is_to_leave``: it is told to leave the job.
        """
        if self._ended is None:
            if is_to_leave and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
            try:
                status = self._process.wait(within_s)
            except subprocess.TimeoutExpired:
                return AgentSays(self._node, None)
            self._ended = AgentSays(self._node, status, self._last_lines())
        return self._ended

    def _last_lines(self) -> tuple[str, ...]:
        """What the agent has said last; nothing is left open."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - LAST_BYTES))
        text = self._output.read().decode(errors="replace")
        self._output.close()
        return tuple(text.splitlines()[-LAST_LINES:])


def _end_with_parent(parent: int) -> None:
    """End this process once its parent has, and with it the agent."""
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(LOOK_EVERY_S)
    os._exit(1)


def node_id() -> str:
    """Ray's id of the machine on which this process is an actor."""
    import ray  # noqa: PLC0415  (an extra)

    return str(ray.get_runtime_context().get_node_id())


def agent_environment(environment: Mapping[str, str], threads: int) -> dict[str, str]:
    """The environment of an agent in an actor with this one.

    Ray has set the threads for one process in there; ``threads`` are those of each trainer,
    0: the agent finds its own number.
    """
    left_out = {SECRET, THREADS}
    kept = {name: value for name, value in environment.items() if name not in left_out}
    return {**kept, THREADS: str(threads)} if threads else kept
