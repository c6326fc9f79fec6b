"""``paceline dashboard [DIR]``: a job in the browser. ``paceline report``: as one file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.dashboard import Observer, open_dashboard, report_of, serve
from paceline.errors import UsageError
from paceline.launch.job import JOIN_HELP, PLAIN_HELP, JobDir, find_job, named_job
from paceline.timing import SystemClock


def dashboard(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
    *,
    join: Annotated[str | None, typer.Option(help=JOIN_HELP)] = None,
    plain: Annotated[bool, typer.Option("--plain", help=PLAIN_HELP)] = False,
    port: Annotated[
        int,
        typer.Option(
            help="Of this machine's loopback; 0: any.", min=0, max=65535, show_default="0"
        ),
    ] = 0,
) -> None:
    """Show a job in the browser, while it runs and afterwards, until Ctrl-C."""
    job = named_job(job_dir, join, find_job, is_plain=plain)
    name = job.path.name if isinstance(job, JobDir) else job.name
    opened = open_dashboard(port)
    observer = Observer(job, name, SystemClock())
    observer.start()
    print(f"paceline: {name} is shown at {opened.url}", file=sys.stderr)
    try:
        serve(opened, observer)
    finally:
        observer.close()


def report(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "-o", help="The file, which needs nothing else.", show_default="report.html"
        ),
    ] = Path("report.html"),
) -> None:
    """Write a job as one HTML file, to be sent and opened anywhere."""
    job = named_job(job_dir, None, find_job)
    assert isinstance(job, JobDir)
    observer = Observer(job, job.path.name, SystemClock())
    try:
        output.write_text(report_of(observer), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"-o {output}: {error.strerror}") from error
    finally:
        observer.close()
    print(output)
