"""``paceline dashboard [DIR]``: a job, or a folder of them, in the browser.

``paceline report``: a job as one file.
"""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.options import JoinOption, PlainOption, job_said
from paceline.dashboard import (
    Jobs,
    Observer,
    holds_jobs,
    open_dashboard,
    parse_proxy,
    report_of,
    serve,
)
from paceline.errors import TransportError, UsageError
from paceline.launch.job import JobDir, find_job
from paceline.timing import SystemClock

LEAST_TOKEN = 16


def dashboard(
    job_dir: Annotated[
        Path | None,
        typer.Argument(
            help="The job folder, or a folder of such folders: all of them; default: that "
            "which runs, or ran last."
        ),
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
    port: Annotated[
        int,
        typer.Option(
            help="Of this machine's loopback; 0: any.", min=0, max=65535, show_default="0"
        ),
    ] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with the token, which is made if it is not there.",
            show_default="another token each time",
        ),
    ] = None,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            help="The address that visitors see, if a proxy of this machine is between; "
            "the page changes nothing then."
        ),
    ] = None,
    look_only: Annotated[
        bool,
        typer.Option("--look-only", help="The page changes nothing, whoever asks."),
    ] = False,
) -> None:
    """Show a job, or all of a folder, in the browser, until Ctrl-C."""
    token = "" if token_file is None else _kept_token(token_file)
    proxy = "" if behind_proxy is None else parse_proxy(behind_proxy)
    shown: Observer | Jobs
    if job_dir is not None and join is None and _holds_jobs(job_dir):
        shown, name = Jobs(job_dir, SystemClock()), f"each job of {job_dir}"
    else:
        job = job_said(job_dir, join, find_job, is_plain=plain)
        name = job.path.name if isinstance(job, JobDir) else job.name
        shown = Observer(job, name, SystemClock())
        if isinstance(job, JobDir):
            _require_job(job)
        else:
            with suppress(TransportError):  # it may come back, and the page tells it
                shown.ask()
    opened = open_dashboard(port, token, proxy, may_ask=not look_only)
    shown.start()
    print(f"paceline: {name} is shown at {opened.door.url}", file=sys.stderr)
    try:
        serve(opened, shown)
    finally:
        shown.close()


def _is_job(job: JobDir) -> bool:
    return job.config.exists() or job.events.exists()


def _holds_jobs(folder: Path) -> bool:
    return not _is_job(JobDir(folder)) and holds_jobs(folder)


def _require_job(job: JobDir) -> None:
    if not _is_job(job):
        raise UsageError(
            f"{job.path}: expected a job folder, with job.json or events.jsonl; there is "
            "neither"
        )


def _kept_token(path: Path) -> str:
    """The token in a file that only its owner may read."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "r+", encoding="ascii") as file:
            if os.fstat(descriptor).st_mode & 0o077:
                raise UsageError(
                    f"--token-file {path}: others may read it; chmod 600 {path}"
                )
            if not (token := file.read().strip()):
                token = secrets.token_urlsafe(24)
                file.write(token)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--token-file {path}: {error}") from error
    if len(token) < LEAST_TOKEN:
        raise UsageError(
            f"--token-file {path}: expected {LEAST_TOKEN} characters or more, got "
            f"{len(token)}"
        )
    return token


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
    job = job_said(job_dir, None, find_job)
    assert isinstance(job, JobDir)
    _require_job(job)
    observer = Observer(job, job.path.name, SystemClock())
    try:
        output.write_text(report_of(observer), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"-o {output}: {error.strerror}") from error
    finally:
        observer.close()
    print(output)
