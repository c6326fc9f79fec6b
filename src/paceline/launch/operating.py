"""Asking a running job from outside: its folder says where its coordinator listens.

Waits: `call_running`, for `ANSWER_S` at most: the coordinator may be coming back.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from paceline.errors import PeerLost, UsageError
from paceline.ids import OPERATOR
from paceline.launch.folder import JobDir, RunFile
from paceline.launch.secret_file import read_secret
from paceline.launch.wiring import Wires
from paceline.messages import Message, Refusal, Scale, Waiting
from paceline.timing import Clock, Deadline
from paceline.transport.connection import Connection

ANSWER_S = 5.0


def find_running(root: Path) -> JobDir:
    """The newest job folder below ``root`` whose job runs.

    Raises:
        UsageError: there is none.
    """
    running = [
        job
        for path in sorted(root.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        if (run := (job := JobDir(path.parent)).read_run()) is not None
        and Path(run.sockets).is_dir()
    ]
    if not running:
        raise UsageError(f"no job runs in a folder of {root}: name its job folder")
    return running[-1]


def call_scale(job: JobDir, trainers: int, clock: Clock) -> None:
    """Let a running job have so many trainers; its launcher starts or retires some.

    It is durable when this returns.

    Raises:
        UsageError: the folder holds no running job, or the number is out of its range.
        TransportError: its coordinator does not answer.
    """
    run = job.read_run()
    if run is None:
        raise UsageError(f"{job.path} holds no job that runs")
    scale = Scale(trainers=trainers)
    answer = call_running(job, run, OPERATOR, scale, Wires.operate, clock)
    if isinstance(answer, Refusal):
        raise UsageError(answer.text)


def call_until_done(
    job: JobDir, message: Message, clock: Clock, tell: Callable[[str], None]
) -> None:
    """Ask a running job for something until it is so; ``tell`` hears why it is not yet.

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

    Args:
        job: its folder.
        run: where its coordinator listens.
        role: who asks.
        message: what is asked.
        connect: makes the connection: `Wires.observe` or `Wires.operate`.
        clock: the time.

    Raises:
        UsageError: the job runs no more.
        TransportError: its coordinator does not answer within `ANSWER_S`.
    """
    deadline = Deadline(clock, ANSWER_S)
    while True:
        connect_s = max(0.1, deadline.remaining_s())
        wires = Wires(run.run, role, clock, connect_s, read_secret(job.secret))
        try:
            with connect(wires, run.coordinator) as connection:
                answer = connection.call(message, timeout_s=deadline.remaining_s())
            return cast("Message", answer.message)
        except PeerLost as error:
            if not Path(run.sockets).is_dir():
                raise UsageError(
                    f"the job of {job.path} runs no more: its launcher (process {run.pid}) "
                    "went without a summary"
                ) from error
            if deadline.is_over():
                raise
