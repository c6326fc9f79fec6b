"""``paceline track [DIR] --to TOOL``: a job's numbers in TensorBoard, W&B or MLflow.

Waits: for the job to be over, or for Ctrl-C.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.options import job_said
from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.launch.job import JobDir, find_job
from paceline.trackers import TO_HELP, parse_target, wait_tracked


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
) -> None:
    """Write a job's numbers to a tool that keeps runs, until the job is over."""
    target = parse_target(to)
    job = job_said(job_dir, None, find_job)
    assert isinstance(job, JobDir)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def say(text: str) -> None:
        print(f"paceline: {text}", file=sys.stderr)

    followed = wait_tracked(job, target, stop, say, by_trainer=by_trainer)
    if stop.is_set() and not followed.status:
        raise typer.Exit(PREEMPTED_EXIT_CODE)
