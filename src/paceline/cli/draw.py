"""``paceline draw [DIR]``, ``trace [DIR]``: a run as a picture, as a trace."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from paceline.cli.options import job_said, parse_seconds
from paceline.errors import StoreError, UsageError
from paceline.launch.job import RUNS, JobDir, find_job, require_files
from paceline.watch.draw import draw_run
from paceline.watch.tail import Tail
from paceline.watch.trace import TraceEvent, TraceReader


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


def trace(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("-o", help="The file.", show_default="trace.json")
    ] = Path("trace.json"),
    last: Annotated[
        str | None,
        typer.Option(help="Only what ended so long before the last event: 60s, 10m."),
    ] = None,
) -> None:
    """Write a job's rounds, tasks, lives and deaths as a trace for ui.perfetto.dev."""
    job = job_said(job_dir, None, find_job)
    assert isinstance(job, JobDir)
    if not job.events.exists():
        raise UsageError(f"{job.path}: expected a job folder, with events.jsonl")
    kept_s = None if last is None else parse_seconds("--last", last)
    number = 0
    try:
        with output.open("wb") as file:
            file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
            for event in _events(job.events, kept_s):
                file.write((b",\n" if number else b"\n") + msgspec.json.encode(event))
                number += 1
            file.write(b"\n]}\n")
    except OSError as error:
        raise StoreError(f"-o {output}: {error.strerror}") from error
    print(f"{output}: {number:,} events; open it at https://ui.perfetto.dev")


def _events(path: Path, kept_s: float | None) -> Iterator[TraceEvent]:
    least_t = 0.0
    if kept_s is not None:
        least_t = max((float(one.get("t", 0.0)) for one in _lines(path)), default=0.0)
        least_t -= kept_s
    reader = TraceReader()
    for event in _lines(path):
        told = reader.read(event)
        is_late = float(event.get("t", 0.0)) >= least_t
        yield from (one for one in told if is_late or one["ph"] == "M")
    yield from reader.end()


def _lines(path: Path) -> Iterator[dict[str, Any]]:  # Any: fields differ by event
    with closing(Tail(path)) as tail:
        while events := tail.read():
            yield from events
