"""``paceline scale N [DIR]``: more or fewer trainers for a running job."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.launch.job import (
    JOIN_HELP,
    PLAIN_HELP,
    call_until_done,
    find_running,
    named_job,
    shown_name,
)
from paceline.messages.watching import Scale
from paceline.timing import SystemClock


def scale(
    trainers: Annotated[int, typer.Argument(help="How many trainers there are to be.")],
    job_dir: Annotated[
        Path | None, typer.Argument(help="The job folder; default: the one that runs.")
    ] = None,
    *,
    join: Annotated[str | None, typer.Option(help=JOIN_HELP)] = None,
    plain: Annotated[bool, typer.Option("--plain", help=PLAIN_HELP)] = False,
) -> None:
    """Grow or shrink a running job; trainers that go finish their step first."""
    job = named_job(job_dir, join, find_running, is_plain=plain)
    call_until_done(
        job,
        Scale(trainers=trainers),
        SystemClock(),
        lambda reason: print(f"paceline: {reason}", file=sys.stderr),
    )
    print(f"{shown_name(job)}: scaled to {trainers} trainers")
