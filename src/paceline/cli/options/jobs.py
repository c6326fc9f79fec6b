"""Which job a command is for: its folder, its launcher's address, or its name on Ray."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from paceline.launch.job import JobDir, JobDoor, named_job

RAY = "ray:"

JoinOption = Annotated[
    str | None,
    typer.Option(
        help="Without a folder: where its launcher listens, 10.0.0.1:7070; or ray:NAME."
    ),
]
PlainOption = Annotated[
    bool,
    typer.Option("--plain", help="With --join, for a job that was started with --plain."),
]


def job_said(
    folder: Path | None,
    join: str | None,
    find: Callable[[Path], JobDir],
    *,
    is_plain: bool = False,
) -> JobDir | JobDoor:
    """The job that is named, or what ``find`` finds in runs/.

    Raises:
        UsageError: both are named, there is no such job, or no secret.
    """
    if folder is None and join is not None and join.startswith(RAY):
        from paceline.launch.engines import ray_door  # noqa: PLC0415  (few need it)

        return ray_door(join.removeprefix(RAY), os.environ)
    return named_job(folder, join, find, is_plain=is_plain)
