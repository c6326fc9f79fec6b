"""``paceline draw [DIR]``: a run as a picture, ``DIR/run.png``."""

from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import StoreError, UsageError
from paceline.launch.job import RUNS, JobDir, find_job, require_files
from paceline.watch.draw import draw_run


def draw(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
) -> None:
    """Draw what a run learned, how fast, and who died; running or ended."""
    job = find_job(RUNS) if job_dir is None else JobDir(job_dir)
    if not job.path.is_dir():
        raise UsageError(f"there is no job folder {job_dir}")
    require_files([job.events, job.picture])
    try:
        draw_run(job.events, job.picture, job.path.name)
    except OSError as error:
        raise StoreError(f"cannot write {job.picture}: {error.strerror}") from error
    print(job.picture)
