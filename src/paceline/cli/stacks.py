"""``paceline stacks [DIR] [ROLE]``: where the processes of a running job stand.

Waits: for the coordinator and for each process, with a bound for each.
"""

import itertools
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.options import job_said
from paceline.errors import PacelineError, UsageError
from paceline.launch.job import (
    OBSERVER,
    JobDir,
    Wires,
    call_running,
    find_running,
    log_kind,
    running_job,
)
from paceline.launch.processes import (
    ProcessStacks,
    StackFrame,
    roles_with_stacks,
    wait_stacks,
)
from paceline.messages.watching import AskStatus, JobStatus, ProcessStatus
from paceline.timing import Deadline, SystemClock

WITHIN_S = 5.0

_KINDS = {"coordinator", "server", "trainer"}
_BEGINNINGS = ("<frozen runpy>", "/launch/processes/forked.py")


def stacks(
    job_dir: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB_DIR|ROLE",
            help="The job folder; default: that which runs.",
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Argument(metavar="ROLE", help="trainer-0, or trainer: all of them."),
    ] = None,
) -> None:
    """Print where each thread of a running job's processes stands, on this machine."""
    if role is None and job_dir is not None and log_kind(job_dir) in _KINDS:
        job_dir, role = None, job_dir
    if role is not None and log_kind(role) not in _KINDS:
        raise UsageError(f"expected a role such as trainer-0 or trainer, got {role!r}")
    job = job_said(None if job_dir is None else Path(job_dir), None, find_running)
    assert isinstance(job, JobDir)
    if (run := job.read_run()) is None:
        raise UsageError(f"{job.path} holds no job that runs")
    sockets = Path(run.sockets)
    offered = [one for one in roles_with_stacks(sockets) if _is_wanted(one, role)]
    clock = SystemClock()
    stood = wait_stacks(sockets, offered, Deadline(clock, WITHIN_S))
    processes, why = _processes(job)
    if why:
        print(f"what each waits for is not known: {why}\n")
    known = {one.id: one for one in processes if _is_wanted(one.id, role)}
    others = [one for name, one in known.items() if name not in stood]
    if not stood and not others:
        what = "no process" if role is None else f"no {role}"
        raise UsageError(f"{job.path}: {what} of this job runs on this machine")
    for name, found in stood.items():
        _print_role(name, found, known.get(name))
    for one in others:
        print(
            f"{_title(one.id, one.pid, one)}\n  is not on this machine, or was not started "
            f"by paceline: py-spy dump --pid {one.pid} on {one.host or 'its machine'}\n"
        )


def _is_wanted(name: str, role: str | None) -> bool:
    one = name.partition(".")[0]  # without the number of a rank
    return role is None or role in {name, one, log_kind(one)}


def _processes(job: JobDir) -> tuple[tuple[ProcessStatus, ...], str]:
    """What the coordinator says, or why it says nothing."""
    try:
        running = running_job(job, SystemClock())
        if running is None:
            return (), "no job runs in the folder"
        answer = call_running(running, OBSERVER, AskStatus(), Wires.observe, SystemClock())
    except PacelineError as error:
        return (), str(error)
    return (answer.processes, "") if isinstance(answer, JobStatus) else ((), str(answer))


def _print_role(name: str, found: ProcessStacks | None, told: ProcessStatus | None) -> None:
    if found is None:
        pid = None if told is None else told.pid
        print(
            f"{_title(name, pid, told)}\n  has not answered within {WITHIN_S:.0f} s: it is "
            "stopped, or in native code that holds Python's lock; py-spy dump --native "
            f"--pid {pid or 'PID'} may tell\n"
        )
        return
    print(_title(name, found.pid, told))
    for thread in found.threads:
        print(f"  {thread.name}")
        for frame in itertools.dropwhile(_begins, thread.frames):
            print(f"    {frame.function} ({_shown(frame.file)}:{frame.line})")
    print()


def _begins(frame: StackFrame) -> bool:
    """Whether a call is how each thread, and each forked role, begins."""
    return frame.file.endswith(_BEGINNINGS) or frame.function.startswith("Thread.")


def _title(name: str, pid: int | None, told: ProcessStatus | None) -> str:
    title = name if pid is None else f"{name}, process {pid}"
    if told is None:
        return title
    if told.wait is None:
        return f"{title}, {told.state}"
    wait = told.wait
    whom = f" for {wait.named()}" if wait.whom else ""
    return f"{title}, waits{whom} ({wait.kind}) since {wait.since_s:.0f} s: {wait.reason}"


def _shown(file: str) -> str:
    path = Path(file)
    cwd = Path.cwd()
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else file
