"""Processes of a benchmark: forked from one that has torch imported, one at a time.

Forks share the imported libraries, so a candidate does not pay for imports, and all of
them, plain loops too, keep freed memory as the processes of a job do (`KEPT_MEMORY`).

Waits: for processes, with a bound each.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from paceline.launch.commands import Command
from paceline.launch.forkserver import ForkServer
from paceline.launch.process import Child, wait_any
from paceline.timing import Deadline, SystemClock

ROOT = Path(__file__).resolve().parents[1]
POLL_S = 0.05
IMPORT_S = 600.0  # as the fork server itself allows


@contextlib.contextmanager
def fork_server(log: Path, threads: int) -> Iterator[ForkServer]:
    """A fork server for a whole benchmark."""
    # Scripts of a benchmark import each other; a script's own folder is all they would see.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": path}
    forks = ForkServer(environment, log, SystemClock())
    try:
        yield forks
    finally:
        forks.close()


def wait_started(forks: ForkServer, role: str, command: Command, log: Path) -> Child:
    """Start a process, as soon as there is something to fork from.

    Raises:
        TimeoutError: the imports took longer than `IMPORT_S`.
    """
    deadline = Deadline(SystemClock(), IMPORT_S)
    while (child := forks.start(role, command, log)) is None:
        if deadline.is_over():
            raise TimeoutError(f"{role}: nothing to fork from after {IMPORT_S:g} s")
        threading.Event().wait(POLL_S)
    return child


def wait_script(
    forks: ForkServer,
    script: Path,
    arguments: tuple[str, ...],
    changes: Mapping[str, str],
    log: Path,
    limit_s: float,
) -> None:
    """Run a script to its end in a process of its own.

    Args:
        forks: where the process comes from.
        script: what it runs.
        arguments: its command line.
        changes: of the environment.
        log: where its output goes.
        limit_s: how long it may take.

    Raises:
        RuntimeError: it failed or took longer; the end of its output is in the message.
    """
    command = Command((str(script), *arguments), {**os.environ, **changes})
    child = wait_started(forks, "trainer-0", command, log)
    if not wait_any([child], limit_s):
        child.signal(signal.SIGKILL)
        wait_any([child], limit_s)
    status = child.reap()
    if status:
        words = "\n".join(child.last_lines())
        raise RuntimeError(f"{script.name} {' '.join(arguments)}: status {status}\n{words}")
