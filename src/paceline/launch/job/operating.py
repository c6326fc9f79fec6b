"""Asking a running job from outside: its folder, or its launcher, says where it is.

Waits: `call_running`, for `ANSWER_S` at most: the coordinator may be coming back.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, cast

from paceline.errors import StoreError, UsageError
from paceline.ids import OPERATOR
from paceline.launch.job.files import read_secret
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.joining import ANSWER_S, JobDoor
from paceline.launch.job.wiring import Wires, way_of
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.timing import Clock, Deadline
from paceline.transport.connection import Connection
from paceline.transport.handshake import Secret
from paceline.transport.patience import PatientConnection


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
    """The job folder below ``root`` whose job runs; if none does, the last that did.

    That has ended, or all of its processes were killed: then it has begun last.

    Raises:
        UsageError: there is none, or more than one runs.
    """
    if running := _running(root):
        return _only(running)
    told = [*root.glob("*/summary.json"), *root.glob("*/run.json")]
    last = max(told, key=_written_s, default=None)
    if last is None:
        raise UsageError(f"no job runs or has ended in a folder of {root}: name its folder")
    return JobDir(last.parent)


def _written_s(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0  # its job ends just now, and removes it


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
    try:
        return Path(run.sockets).is_dir()
    except PermissionError:
        return True  # in a folder that only another user may look into


def _only(running: list[JobDir]) -> JobDir:
    if len(running) > 1:
        names = ", ".join(os.path.relpath(job.path) for job in running)
        raise UsageError(f"{len(running)} jobs run: name the folder of one of {names}")
    return running[0]


class RunningJob(NamedTuple):
    """A running job as who asks it knows it; ``look`` raises if nobody will answer."""

    run: str
    coordinator: str
    secret: Secret | None
    look: Callable[[], None]
    is_plain: bool = False


def running_job(job: JobDir | JobDoor, clock: Clock) -> RunningJob | None:
    """Where a job is asked; None: the folder holds no job that runs.

    Raises:
        UsageError: at the address nobody lets anybody in, or with another secret.
        TransportError: whoever listens there does not answer.
    """
    if isinstance(job, JobDoor):
        place = job.place(clock)
        return RunningJob(
            place.run, place.coordinator, job.secret, lambda: None, job.is_plain
        )
    run = job.read_run()
    if run is None:
        return None

    def look() -> None:
        if not _is_alive(run):
            command = job.resume_command()
            raise UsageError(
                f"the job of {job.path} runs no more: its launcher (process {run.pid}) "
                f"went without a summary; go on with: {command}"
            )

    secret = read_secret(job.secret)
    return RunningJob(run.run, run.coordinator, secret, look, run.is_plain)


def is_running(job: JobDir) -> bool:
    """Whether a job runs in a folder, as far as this machine can tell.

    Raises:
        StoreError: a file of the folder is damaged.
    """
    run = job.read_run()
    return run is not None and _is_alive(run)


def call_until_done(
    job: JobDir | JobDoor,
    message: Message,
    clock: Clock,
    tell: Callable[[str], None] = lambda _: None,
) -> Message:
    """Ask a running job for something until it is so; ``tell`` hears why it waits.

    Raises:
        UsageError: there is no running job, it was refused, or the job has ended.
        TransportError: its coordinator does not answer.
    """
    told = ""
    while True:
        running = running_job(job, clock)
        if running is None:
            assert isinstance(job, JobDir)
            raise UsageError(f"{job.path} holds no job that runs")
        answer = call_running(running, OPERATOR, message, Wires.operate, clock)
        if isinstance(answer, Refusal):
            raise UsageError(answer.text)
        if not isinstance(answer, Waiting):
            return answer
        if answer.wait.reason != told:
            told = answer.wait.reason
            tell(told)


def call_running(
    job: RunningJob,
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
        way = way_of(is_plain=job.is_plain)
        wires = Wires(job.run, role, clock, connect_s, job.secret, way=way)
        return connect(wires, job.coordinator)

    with closing(PatientConnection(reach)) as coordinator:
        return cast("Message", coordinator.wait_answer(message, deadline, job.look))
