"""``paceline track [DIR] --to TOOL``: a job's numbers in TensorBoard, W&B or MLflow.

Waits: for the job to begin, if it is told to; then to its end, or for Ctrl-C.
"""

import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.options import job_said, parse_seconds
from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.launch.job import JobDir, find_job, is_running
from paceline.timing import SystemClock
from paceline.trackers import (
    TO_HELP,
    Followed,
    Following,
    MarkFile,
    open_tracker,
    parse_target,
)

LOOK_EVERY_S = 0.2


def track(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
    *,
    to: Annotated[str, typer.Option(help=TO_HELP)],
    by_trainer: Annotated[
        bool,
        typer.Option("--by-trainer", help="Numbers of each trainer are told apart."),
    ] = False,
    within: Annotated[str, typer.Option(help="How long the job may take to begin.")] = "0s",
) -> None:
    """Write a job's numbers to a tool that keeps runs, until the job is over."""
    target = parse_target(to)
    job = job_said(job_dir, None, find_job)
    assert isinstance(job, JobDir)
    _wait_begun(job, parse_seconds("--within", within))
    job.read_config()
    where = f"{_place(target.tool, target.where)} {'by trainer' if by_trainer else ''}"
    mark = MarkFile(job, target.tool, where)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with (
        mark.hold(),
        closing(Following(job, open_tracker(target), mark, SystemClock())) as following,
    ):
        goes_on = following.begin(by_trainer=by_trainer)
        how = "goes on" if goes_on else "begins"
        print(f"paceline: {job.path.name} {how} in {target}", file=sys.stderr)
        followed = following.wait_over(stop)
    _tell(followed, str(target), is_stopped=stop.is_set())


def _tell(followed: Followed, target: str, *, is_stopped: bool) -> None:
    counts = f"{followed.numbers:,} numbers and {followed.happenings:,} happenings"
    if followed.status:
        how = f"the job is over ({followed.status})"
    elif is_stopped:
        how = "stopped; the same command goes on"
    else:
        how = "the job runs no more and has no summary; once it is resumed, go on"
    print(f"paceline: {counts} written to {target}; {how}", file=sys.stderr)
    if is_stopped and not followed.status:
        raise typer.Exit(PREEMPTED_EXIT_CODE)


def _place(tool: str, where: str) -> str:
    """All that tells one place of a tool from another."""
    if tool == "tensorboard":
        return str(Path(where or tool).absolute())
    if tool == "mlflow":
        uri = where or os.environ.get("MLFLOW_TRACKING_URI", "")
        return uri if "://" in uri else f"{Path.cwd()} {uri}"
    return where


def _wait_begun(job: JobDir, within_s: float) -> None:
    """Until the job runs, or for so long."""
    clock = SystemClock()
    end_s = clock.now_s() + within_s
    while not is_running(job) and clock.now_s() < end_s:
        time.sleep(LOOK_EVERY_S)
