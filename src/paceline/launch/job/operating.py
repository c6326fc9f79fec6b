"""Asking a running job from outside: its folder says where its coordinator listens.

Waits: `call_running`, for `ANSWER_S` at most: the coordinator may be coming back.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

from paceline.errors import StoreError, UsageError
from paceline.ids import OPERATOR
from paceline.launch.job.commands import resume_command
from paceline.launch.job.files import read_secret
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.wiring import Wires, way_of
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.timing import Clock, Deadline
from paceline.transport.connection import Connection
from paceline.transport.patience import PatientConnection

ANSWER_S = 5.0


def find_running(root: Path) -> JobDir:
    """The job folder below ``root`` whose job runs.

    Raises:
        UsageError: there is none, or more than one.
    """
    running = _running(root)
    if not running:
        raise UsageError(f"no job runs in a folder of {root}: name its job folder")
    return _only(running)


def find_job(root: Path) -> JobDir:
    """The job folder below ``root`` whose job runs; if none does, the last that has ended.

    Raises:
        UsageError: there is none, or more than one runs.
    """
    if running := _running(root):
        return _only(running)
    ended = root.glob("*/summary.json")
    last = max(ended, key=lambda path: path.stat().st_mtime, default=None)
    if last is None:
        raise UsageError(f"no job runs or has ended in a folder of {root}: name its folder")
    return JobDir(last.parent)


def _running(root: Path) -> list[JobDir]:
    found = []
    for path in sorted(root.glob("*/run.json")):
        job = JobDir(path.parent)
        with suppress(StoreError, UsageError):  # whose file is torn, nothing runs there
            if (run := job.read_run()) is not None and _is_alive(run):
                found.append(job)
    return found


def _is_alive(run: RunFile) -> bool:
    """Whether a job's launcher is there, as far as this machine can tell."""
    try:
        os.kill(run.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return Path(run.sockets).is_dir()


def _only(running: list[JobDir]) -> JobDir:
    if len(running) > 1:
        names = ", ".join(os.path.relpath(job.path) for job in running)
        raise UsageError(f"{len(running)} jobs run: name the folder of one of {names}")
    return running[0]


def call_until_done(
    job: JobDir,
    message: Message,
    clock: Clock,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Ask a running job for something until it is durable; ``tell`` hears why it waits.

    Raises:
        UsageError: the folder holds no running job, it was refused, or the job has ended.
        TransportError: its coordinator does not answer.
    """
    told = ""
    while True:
        run = job.read_run()
        if run is None:
            raise UsageError(f"{job.path} holds no job that runs")
        answer = call_running(job, run, OPERATOR, message, Wires.operate, clock)
        if isinstance(answer, Refusal):
            raise UsageError(answer.text)
        if not isinstance(answer, Waiting):
            return
        if answer.wait.reason != told:
            told = answer.wait.reason
            tell(told)


def call_running(
    job: JobDir,
    run: RunFile,
    role: str,
    message: Message,
    connect: Callable[[Wires, str], Connection],
    clock: Clock,
) -> Message:
    """Ask a job's coordinator, which proves the run's secret and wants it proved.

    ``connect`` is `Wires.observe` or `Wires.operate`.

    Raises:
        UsageError: the job runs no more.
        TransportError: its coordinator does not answer within `ANSWER_S`.
    """
    deadline = Deadline(clock, ANSWER_S)

    def reach() -> Connection:
        connect_s = max(0.1, deadline.remaining_s())
        way = way_of(is_plain=run.is_plain)
        wires = Wires(run.run, role, clock, connect_s, read_secret(job.secret), way=way)
        return connect(wires, run.coordinator)

    def look() -> None:
        if not _is_alive(run):
            command = resume_command(job.path, job.read_script())
            raise UsageError(
                f"the job of {job.path} runs no more: its launcher (process {run.pid}) "
                f"went without a summary; go on with: {command}"
            )

    with closing(PatientConnection(reach)) as coordinator:
        return cast("Message", coordinator.wait_answer(message, deadline, look))
