"""`connect`: the first line of every training script.

::

    the environment names a job    join it, as the trainer that it names
    it is one of torchrun's        join the job of all that this torchrun has started
    it names none                  start an embedded job: one server, `sync`

A process has one session; asking again returns it. When an embedded job's is closed, asking
again starts another job, in a folder of its own. At the end of the process a session
leaves its job, unless the script failed: then its death is told, and seen as one.
An embedded job ends its process with the exit code that `paceline run` would end with;
Python tells nobody at exit that a script ended by `SystemExit`.

Waits: for the coordinator, to join. Any thread.
"""

import atexit
import contextlib
import gc
import io
import logging
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import NoReturn

from paceline.config import JobConfig
from paceline.errors import (
    PREEMPTED_EXIT_CODE,
    Interrupted,
    JobFailed,
    StoreError,
    UsageError,
)
from paceline.ids import role_kind
from paceline.launch.guests import GuestVisit, JobOver
from paceline.launch.job import (
    JOB_DIR,
    RUNS,
    JobDir,
    Place,
    UserScript,
    door_addresses,
    fresh_job_dir,
    load_plugins,
    notebook_name,
    read_place,
    read_quiet,
    wires_of,
)
from paceline.launch.local import fresh_run_id
from paceline.launch.own_job import INTERRUPTED_CODE, WHY, OwnJob
from paceline.launch.processes import (
    LeaveNotice,
    exit_code_of,
    group_place,
    note_exits,
)
from paceline.launch.supervise import failure_of, write_failure
from paceline.launch.torchrun import FORWARDED, is_in_torchrun
from paceline.timing import SystemClock, wall_time_s
from paceline.torch_compiler import leave_out
from paceline.trainer.client import Courier
from paceline.trainer.peers import PeerWires
from paceline.trainer.seating import take_seat
from paceline.trainer.session import Session
from paceline.watch.progress import names_of_notebook
from paceline.watch.summary import Ending

_lock = threading.Lock()  # guards what follows
_sessions: list[Session] = []  # the one of this process, once it is connected
_jobs: list[OwnJob] = []  # the one that it has started for it


def connect() -> Session:
    """Join the job that the ``PACELINE_*`` environment names, or start an embedded one.

    An embedded job's folder is ``$PACELINE_JOB_DIR``, else ``runs/<time>-<script>``, in a
    notebook ``runs/<time>-<notebook>``. What
    `paceline run` says of a job is said on standard error, unless ``PACELINE_QUIET`` is 1;
    Ctrl-C and exceptions end it with a checkpoint. Its summary is written when the process
    ends.

    Returns:
        The session of this process: the same at every call, until it is closed. Then an
        embedded job is over, and the next call starts another.

    Raises:
        UsageError: the environment is not one of a trainer, the folder is taken, a plugin
            cannot be imported, or the session was closed in a trainer of a job.
        JobFailed: the coordinator cannot be reached.
        ForeignPeer: it is of another run, version or secret.
        StoreError: the folder of an embedded job cannot be written.
    """
    with _lock:
        if _sessions and _sessions[0].membership.calls.is_closed:
            _end_closed()
        if not _sessions:
            leave_out()
            place = read_place(os.environ)
            if place is None and is_in_torchrun(os.environ):
                _sessions.append(_come())
            else:
                _sessions.append(_join(place) if place is not None else _embed())
        return _sessions[0]


def _end_closed() -> None:
    """Make room for another session, where there can be one."""
    if not _jobs:
        raise UsageError(
            "connect() after close(): this process is a trainer of a job, has left it, and "
            "is no trainer of another one: close the session when the script is done"
        )
    verdict = _jobs[0].end(None)  # a summary of its own
    if verdict is not None and verdict.ending is Ending.INTERRUPTED:
        raise Interrupted(WHY)
    _jobs.clear()
    _sessions.clear()


def _come() -> Session:
    """Be a trainer of the job that torchrun's processes have together."""
    from paceline.launch.torchrun import come  # noqa: PLC0415  (most jobs have none)

    found = come(os.environ, _script())
    if isinstance(found, JobOver):
        if found.status:
            raise JobFailed(found.text)
        _say(found.text)
        raise SystemExit(0)
    found.visit.watch(_end_without_host)
    note_exits()
    if threading.current_thread() is threading.main_thread():
        for number in FORWARDED:  # until it has joined, and can leave in order
            signal.signal(number, lambda *_: _end_told(found.visit, PREEMPTED_EXIT_CODE))
    return _join(found.place, found.visit)


def _join(place: Place, visit: GuestVisit | None = None) -> Session:
    if role_kind(place.role) != "trainer":
        raise UsageError(f"this process is {place.role}; only a trainer connects")
    config = JobDir(place.job_dir).read_config()
    load_plugins(config.plugins)
    wires = wires_of(place, SystemClock())
    doors = door_addresses(place)
    seat = take_seat(
        place.role,
        Courier(wires.to_coordinator(place.coordinator), wires.to_server()),
        wires.clock,
        config.timeout_s,
        peers=PeerWires(
            lambda service: wires.listen_as_trainer(doors, service), wires.to_trainer()
        ),
        group=group_place(),
    )
    session = Session(seat, place.job_dir)
    told = JobDir(place.job_dir).failure(place.role)
    is_main = threading.current_thread() is threading.main_thread()  # where signals arrive
    if visit is None:
        atexit.register(_leave, session, told)
        if is_main:
            LeaveNotice(seat.membership)
        return session
    end_told = partial(_end_told, visit)
    notice = None
    if is_main:
        notice = LeaveNotice(
            seat.membership,
            end=end_told,
            numbers=FORWARDED,
            told=visit.told_to_leave,
        )
    atexit.register(_part, session, told, visit, notice)
    return session


def _embed() -> Session:
    is_quiet, named = read_quiet(os.environ), os.environ.get(JOB_DIR)
    cells = names_of_notebook()
    script = sys.argv[0] if cells is None else f"{notebook_name(os.environ, cells)}.ipynb"
    folder = Path(named) if named else fresh_job_dir(RUNS, script, wall_time_s())
    output = sys.stderr if sys.stderr is not None else io.StringIO()
    try:
        job = OwnJob(
            JobConfig(run=fresh_run_id()),
            folder,
            _script(),
            output,
            _end_process,
            is_quiet=is_quiet,
            is_interactive=hasattr(sys, "ps1"),
        )
    except StoreError as error:
        raise error.with_traceback(None) from None  # its text says which disk, and why
    atexit.register(_end, job)
    _jobs.append(job)
    return job.session


def _script() -> UserScript:
    """What this process runs: a file, or a module by ``python -m``."""
    arguments = tuple(sys.argv[1:])
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None:
        return UserScript(sys.argv[0], arguments)
    return UserScript(spec.name.removesuffix(".__main__"), arguments, is_module=True)


def _leave(session: Session, told: Path) -> None:
    error = _failure()
    if error is None:
        session.close()
    elif (had := session.membership.had()) is not None:
        write_failure(told, failure_of(error, *had))
    if (
        session.membership.must_begin_again is not None
    ):  # too late for an exception to say so
        sys.stdout.flush()
        os._exit(PREEMPTED_EXIT_CODE)


def _part(
    session: Session, told: Path, visit: GuestVisit, notice: LeaveNotice | None
) -> None:
    """Leave, as a process of torchrun's, which starts all anew at any exit code but 0."""
    error = _failure()
    if error is not None:
        if (had := session.membership.had()) is not None:
            write_failure(told, failure_of(error, *had))
        visit.part(exit_code_of(error), _say)
        return
    session.close()
    if session.membership.must_begin_again is not None:
        visit.part(PREEMPTED_EXIT_CODE, _say)
        _end_process(PREEMPTED_EXIT_CODE)  # torchrun cannot start it alone, and starts all
    is_told = notice is not None and notice.is_told
    code = visit.part(PREEMPTED_EXIT_CODE if is_told else 0, _say)
    if is_told or code:
        _end_process(code)


def _end_without_host() -> NoReturn:
    """Whoever gave the role was killed, and with it this machine's share of the job."""
    _say("the process of this machine that gives roles has gone: all begin again")
    os._exit(PREEMPTED_EXIT_CODE)


def _end_told(visit: GuestVisit, status: int) -> NoReturn:
    """End a process that was told to leave, and does not."""
    os._exit(visit.part(status, _say))


def _end(job: OwnJob) -> None:
    try:
        _end_told_of(job)
    except KeyboardInterrupt:  # pressed once more, when all is saved and told
        os._exit(INTERRUPTED_CODE)


def _end_told_of(job: OwnJob) -> None:
    failure = _failure()
    verdict = job.end(failure)
    if verdict is None or not verdict.exit_code or hasattr(sys, "ps1"):
        return
    if (
        failure is None or verdict.ending is Ending.INTERRUPTED
    ):  # else Python's own code is 1
        _end_process(verdict.exit_code)


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _end_process(code: int) -> NoReturn:
    """End the process as `paceline run` would: Python's own code may be 0, or another's.

    Files that the script has left open are written, as Python would; what it had registered
    with `atexit` before it connected does not run any more.
    """
    logging.shutdown()
    for one in gc.get_objects():
        if issubclass(type(one), io.IOBase):
            with contextlib.suppress(OSError, ValueError):  # closed, or for reading
                one.flush()
    os._exit(code)


def _failure() -> BaseException | None:
    """What ended the script, if something did: the interpreter keeps it as it dies.

    In an interactive session, errors are looked at and gone on from.
    """
    if hasattr(sys, "ps1"):
        return None
    failure: BaseException | None = getattr(sys, "last_value", None)
    return failure
