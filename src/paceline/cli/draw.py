"""``paceline draw DIR``: a run as a picture, ``DIR/run.png``."""

from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import UsageError
from paceline.launch.folder import JobDir
from paceline.watch.draw import draw_run


def draw(job_dir: Annotated[Path, typer.Argument(help="The job folder.")]) -> None:
    """Draw what a run learned, how fast, and who died; running or ended."""
    job = JobDir(job_dir)
    if not job.path.is_dir():
        raise UsageError(f"there is no job folder {job_dir}")
    draw_run(job.events, job.picture, job.path.name)
    print(job.picture)
