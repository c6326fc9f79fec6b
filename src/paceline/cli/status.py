"""``paceline status [DIR]``: how a running job stands, or how it ended."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli.options import JoinOption, PlainOption, job_said
from paceline.cli.streams import table_console
from paceline.errors import StoreError, TransportError, UsageError
from paceline.launch.job import (
    OBSERVER,
    JobDir,
    JobDoor,
    Wires,
    call_running,
    find_job,
    running_job,
)
from paceline.messages.watching import AskStatus, JobStatus, ProcessStatus, QueueStatus
from paceline.timing import Clock, SystemClock
from paceline.watch.pulse import waited_for
from paceline.watch.summary import Ending, Summary, tell_ending
from paceline.watch.table import summary_table

StatusView = dict[str, object]


def status(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how a job stands, or how it ended."""
    job = job_said(job_dir, join, find_job, is_plain=plain)
    ended = ended_view(job) if isinstance(job, JobDir) else None
    view = ended or running_view(job, SystemClock())
    if as_json:
        print(json.dumps(view))
    else:
        print_view(view, table_console())
        if isinstance(job, JobDir):
            _print_summary(job, view)


def as_view(job: JobStatus, state: str) -> StatusView:
    """What the command shows of a status."""
    return {
        "state": state,
        "queue": msgspec.to_builtins(job.queue),
        "epoch": job.epoch,
        "kind": job.kind,
        "pace": job.pace,
        "changing": job.changing,
        "trouble": job.trouble.text if job.trouble is not None else None,
        "no_room": job.no_room or None,
        "processes": [msgspec.to_builtins(process) for process in job.processes],
        "counters": dict(job.counters),
        "summary": None,
    }


def ended_view(job: JobDir) -> StatusView | None:
    """How an ended job stood at its end; None while there is no summary.

    Raises:
        StoreError: a file of the folder is damaged.
    """
    summary = job.read_summary()
    if summary is None:
        return None
    last = job.read_status()
    state = str(summary["status"])
    if last is not None:
        return {
            **as_view(last, state),
            "no_room": None,
            "processes": [],
            "summary": summary,
        }
    return {
        "state": state,
        "queue": msgspec.to_builtins(QueueStatus(0, 0, 0, 0, 0)),
        "epoch": 1,
        "kind": "train",
        "pace": str(job.read_config().pace),
        "changing": None,
        "trouble": None,
        "no_room": None,
        "processes": [],
        "counters": {},
        "summary": summary,
    }


def running_view(job: JobDir | JobDoor, clock: Clock) -> StatusView:
    """Ask the job's coordinator, for `ANSWER_S` at most: it may be coming back.

    Raises:
        UsageError: there is no running job.
        TransportError: its coordinator does not answer.
    """
    running = running_job(job, clock)
    if running is None:
        assert isinstance(job, JobDir)
        what = "holds no job that runs or has ended"
        if job.config.exists():
            command = job.resume_command()
            what = f"holds a job whose last run left no summary; go on with: {command}"
        raise UsageError(f"{job.path} {what}")
    answer = call_running(running, OBSERVER, AskStatus(), Wires.observe, clock)
    if not isinstance(answer, JobStatus):
        raise TransportError(f"the coordinator refused to say how the job stands: {answer}")
    return as_view(answer, answer.state)


def print_view(view: StatusView, console: Console) -> None:
    """Print it for people: who is waited for, then all processes."""
    queue = msgspec.convert(view["queue"], QueueStatus)
    where = f"epoch {view['epoch']}" if view["kind"] == "train" else str(view["kind"])
    tasks = (
        f"{queue.todo} todo, {queue.pending} pending, {queue.done} done, "
        f"{queue.failed} failed"
    )
    now = "" if view["summary"] is not None else f"  {where}: {tasks}"
    console.print(f"{view['state']}  pace {view['pace']}{now}", highlight=False)
    if view["changing"]:
        console.print(str(view["changing"]), highlight=False)
    for told in (view["trouble"], view["no_room"]):
        if told:
            console.print(str(told), highlight=False, markup=False, soft_wrap=True)
    processes = msgspec.convert(view["processes"], list[ProcessStatus])
    if not processes:
        return
    for one in waited_for(processes):
        console.print(one.described(), highlight=False)
    table = Table(box=None, pad_edge=False)
    shown = ("id", "incarnation", "pid", "host", "state", "clock", "records")
    for name in (*shown, "waits for", "since", "reason"):
        table.add_column(name)
    for process in processes:
        wait = process.wait
        told = ["", "", ""]
        if wait is not None:
            told = [wait.named(), f"{wait.since_s:.0f} s", f"{wait.kind}: {wait.reason}"]
        cells = [*(str(getattr(process, name)) for name in shown), *told]
        table.add_row(*map(Text, cells))  # as they are: a reason may have brackets
    console.print(table)


def _print_summary(job: JobDir, view: StatusView) -> None:
    """Of an ended job: what it came to, how it ended, and how it is gone on with."""
    if view["summary"] is None:
        return
    try:
        summary = msgspec.convert(view["summary"], Summary)
    except msgspec.ValidationError as error:
        raise StoreError(f"{job.summary} is none of this version: {error}") from error
    console = Console(emoji=False)
    console.print(summary_table(summary))
    if summary.ending not in {"", Ending.TRAINED.value}:
        reason = tell_ending(summary.ending, summary.reason)
        console.print(reason, markup=False, highlight=False, soft_wrap=True)
    if summary.status == "failed" or summary.ending == Ending.INTERRUPTED.value:
        told = f"go on with: {job.resume_command()}"
        console.print(told, markup=False, highlight=False, soft_wrap=True)
