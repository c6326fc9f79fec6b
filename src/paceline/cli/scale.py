"""``paceline scale N [DIR]``, ``pace [DIR] PACE``, ``interrupt [DIR]``: a running job."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.options import JoinOption, PlainOption, job_said
from paceline.config import parse_pace
from paceline.errors import UsageError
from paceline.launch.job import (
    call_until_done,
    find_running,
    shown_name,
)
from paceline.messages.watching import ChangePace, Interrupt, Scale
from paceline.timing import SystemClock


def scale(
    trainers: Annotated[str, typer.Argument(help="How many trainers there are to be.")],
    job_dir: Annotated[
        Path | None, typer.Argument(help="The job folder; default: the one that runs.")
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
) -> None:
    """Grow or shrink a running job; trainers that go finish their step first."""
    if not trainers.isascii() or not trainers.isdigit():
        raise UsageError(
            "expected a number of trainers, and then the job folder, as in paceline scale "
            f"5 runs/mine; got {trainers!r}"
        )
    job = job_said(job_dir, join, find_running, is_plain=plain)
    call_until_done(job, Scale(trainers=int(trainers)), SystemClock(), _tell)
    print(f"{shown_name(job)}: scaled to {trainers} trainers")


def pace(
    job_dir: Annotated[
        str,
        typer.Argument(
            metavar="JOB_DIR|PACE",
            help="The job folder; left out: that which runs, and the pace comes first.",
        ),
    ],
    pace: Annotated[
        str | None, typer.Argument(metavar="PACE", help="As --pace takes it: ssp:5")
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
    part: Annotated[
        str | None,
        typer.Option(help="Number of a part, or a name in it.", show_default="all parts"),
    ] = None,
) -> None:
    """Change the pace of a running job; returns when all go on with it."""
    if pace is None:  # there is one word, and it is the pace
        wanted, folder = parse_pace(job_dir), None
    else:
        try:
            wanted, folder = parse_pace(pace), Path(job_dir)
        except UsageError as error:
            order = "the job folder comes first, as in paceline pace runs/mine ssp:5"
            raise UsageError(f"{error}; {order}") from None
    job = job_said(folder, join, find_running, is_plain=plain)
    message = ChangePace(pace=wanted, part=part or "")
    call_until_done(job, message, SystemClock(), _tell)
    print(f"{shown_name(job)}: {f'part {part}' if part else 'all parts'} at {wanted}")


def interrupt(
    job_dir: Annotated[
        Path | None, typer.Argument(help="The job folder; default: the one that runs.")
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
) -> None:
    """End a run as Ctrl-C at its launcher does: saved first, and to be resumed."""
    job = job_said(job_dir, join, find_running, is_plain=plain)
    call_until_done(job, Interrupt(), SystemClock(), _tell)
    print(f"{shown_name(job)}: trainers leave, a checkpoint is taken, and the run ends")


def _tell(reason: str) -> None:
    print(f"paceline: {reason}", file=sys.stderr)
