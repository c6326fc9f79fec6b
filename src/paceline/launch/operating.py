"""Changing a running job from outside: its folder says where its coordinator listens.

Waits: `call_scale`, for `ANSWER_S` at most: the coordinator may be coming back.
"""

from pathlib import Path

from paceline.errors import PeerLost, UsageError
from paceline.ids import OPERATOR
from paceline.launch.folder import JobDir, RunFile
from paceline.launch.wiring import Wires
from paceline.messages import Refusal, Scale
from paceline.timing import Clock, Deadline

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
    deadline = Deadline(clock, ANSWER_S)
    while True:
        try:
            _call_once(run, trainers, clock, deadline)
        except PeerLost as error:
            if not Path(run.sockets).is_dir():
                raise UsageError(f"the job of {job.path} runs no more") from error
            if deadline.is_over():
                raise
        else:
            return


def _call_once(run: RunFile, trainers: int, clock: Clock, deadline: Deadline) -> None:
    wires = Wires(run.run, OPERATOR, clock, connect_s=max(0.1, deadline.remaining_s()))
    with wires.operate(run.coordinator) as connection:
        scale = Scale(trainers=trainers)
        answer = connection.call(scale, timeout_s=deadline.remaining_s()).message
    if isinstance(answer, Refusal):
        raise UsageError(answer.text)
