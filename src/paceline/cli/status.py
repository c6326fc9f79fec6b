"""``paceline status [DIR]``: how a running job stands, or how it ended."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from paceline.errors import TransportError, UsageError
from paceline.launch.commands import UserScript, resume_command
from paceline.launch.folder import RUNS, JobDir
from paceline.launch.operating import call_running, find_job
from paceline.launch.wiring import OBSERVER, Wires
from paceline.messages import AskStatus, JobStatus, QueueStatus
from paceline.timing import Clock, SystemClock
from paceline.watch.summary import Ending, Summary
from paceline.watch.table import summary_table

StatusView = dict[str, object]


def status(
    job_dir: Annotated[
        Path | None,
        typer.Argument(help="The job folder; default: that which runs, or ran last."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how a job stands, or how it ended."""
    job = find_job(RUNS) if job_dir is None else JobDir(job_dir)
    view = ended_view(job) or running_view(job, SystemClock())
    if as_json:
        print(json.dumps(view))
    else:
        _print_view(view)
        _print_summary(job, view)


def as_view(job: JobStatus, state: str) -> StatusView:
    """What the command shows of a status."""
    return {
        "state": state,
        "queue": msgspec.to_builtins(job.queue),
        "kind": job.kind,
        "pace": job.pace,
        "changing": job.changing,
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
        return {**as_view(last, state), "processes": [], "summary": summary}
    return {
        "state": state,
        "queue": msgspec.to_builtins(QueueStatus(0, 0, 0, 0, 0)),
        "kind": "train",
        "pace": str(job.read_config().pace),
        "changing": None,
        "processes": [],
        "counters": {},
        "summary": summary,
    }


def running_view(job: JobDir, clock: Clock) -> StatusView:
    """Ask the job's coordinator, for `ANSWER_S` at most: it may be coming back.

    Raises:
        UsageError: the folder holds no running job.
        TransportError: its coordinator does not answer.
    """
    run = job.read_run()
    if run is None:
        raise UsageError(f"{job.path} holds no job that runs or has ended")
    answer = call_running(job, run, OBSERVER, AskStatus(), Wires.observe, clock)
    if not isinstance(answer, JobStatus):
        raise TransportError(f"the coordinator refused to say how the job stands: {answer}")
    return as_view(answer, answer.state)


def _where(view: StatusView, queue: QueueStatus) -> str:
    is_training = view["kind"] == "train"
    return f"epoch {queue.epoch + 1}" if is_training else str(view["kind"])


def _print_view(view: StatusView) -> None:
    console = Console()
    queue = msgspec.convert(view["queue"], QueueStatus)
    console.print(
        f"{view['state']}  pace {view['pace']}  {_where(view, queue)}: "
        f"{queue.todo} todo, {queue.pending} pending, {queue.done} done, "
        f"{queue.failed} failed",
        highlight=False,
    )
    if view["changing"]:
        console.print(str(view["changing"]), highlight=False)
    processes = msgspec.convert(view["processes"], list[dict[str, object]])
    if not processes:
        return
    table = Table(box=None, pad_edge=False)
    shown = ("id", "incarnation", "pid", "host", "state", "waiting_for", "clock", "records")
    for name in shown:
        table.add_column(name)
    for process in processes:
        table.add_row(*(str(process[name]) for name in shown))
    console.print(table)


def _print_summary(job: JobDir, view: StatusView) -> None:
    """Of an ended job: what it came to, how it ended, and how it is gone on with."""
    if view["summary"] is None:
        return
    summary = msgspec.convert(view["summary"], Summary)
    console = Console()
    console.print(summary_table(summary))
    if summary.ending not in {"", Ending.TRAINED.value}:
        is_told = summary.reason.startswith(summary.ending)
        reason = summary.reason if is_told else f"{summary.ending}: {summary.reason}"
        console.print(reason, markup=False, highlight=False, soft_wrap=True)
    if summary.status == "failed" or summary.ending == Ending.INTERRUPTED.value:
        command = resume_command(job.path, UserScript(job.read_script(), ()))
        told = f"go on with: {command}  (and the arguments of the script)"
        console.print(told, markup=False, highlight=False, soft_wrap=True)
