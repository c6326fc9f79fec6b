"""``paceline pace DIR PACE``: another pace for a running job."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.config import parse_pace
from paceline.launch.folder import JobDir
from paceline.launch.operating import call_until_done
from paceline.messages import ChangePace
from paceline.timing import SystemClock


def pace(
    job_dir: Annotated[Path, typer.Argument(help="The job folder.")],
    pace: Annotated[str, typer.Argument(help="As --pace takes it: ssp:5")],
    *,
    part: Annotated[
        str | None,
        typer.Option(help="Number of a part, or a name in it.", show_default="all parts"),
    ] = None,
) -> None:
    """Change the pace of a running job; returns when all go on with it."""
    job, wanted = JobDir(job_dir), parse_pace(pace)
    message = ChangePace(pace=wanted, part=part or "")
    call_until_done(job, message, SystemClock(), _tell)
    print(f"{job.path}: {f'part {part}' if part else 'all parts'} at {wanted}")


def _tell(reason: str) -> None:
    print(f"paceline: {reason}", file=sys.stderr)
