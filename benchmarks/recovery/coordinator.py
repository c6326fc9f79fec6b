"""A coordinator that has granted 100,000 leases, killed and started again.

Such a journal would take minutes of training to write, so its outcomes are written as a
coordinator writes them, one lease and one end for each task. The process is the one that
`paceline run` starts, and it is asked as `paceline status` asks. Each finds the journal as
it was written: longer than any that a coordinator leaves behind, since it compacts it.

Waits: for the coordinator, with a deadline.
"""

import os
import shutil
import signal
import time
from pathlib import Path

import msgspec

from benchmarks.harness.processes import wait_started
from paceline.cli.status import running_view
from paceline.config import JobConfig
from paceline.coordinator.durable.outcomes import (
    LeaseGranted,
    Outcome,
    RunBegun,
    StageRegistered,
    TaskDone,
    TrainerJoined,
)
from paceline.errors import TransportError
from paceline.ids import COORDINATOR, TaskKey
from paceline.launch.job.commands import Command, UserScript, role_command
from paceline.launch.job.environment import Place
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.sockets import hold_sockets
from paceline.launch.local import fresh_run_id
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import Child, wait_any
from paceline.messages.shared import Lease, StageSpec
from paceline.store.journal import Journal
from paceline.timing import Deadline, SystemClock

AT_ONCE = 1000  # records of the journal in one transaction
ANSWER_S = 120.0
GONE_S = 30.0


def outcomes(run: str, tasks: int) -> list[Outcome]:
    """The history of a job that has finished ``tasks`` of twice as many."""
    history: list[Outcome] = [
        RunBegun(run, 0, None, ()),
        TrainerJoined("trainer-0", 1),
        StageRegistered(StageSpec(0, 2 * tasks, 1, 1, 1, False, 0, "made")),
    ]
    for task in range(tasks):
        key = TaskKey(0, 0, task)
        history.append(LeaseGranted(Lease(task + 1, key, 0), "trainer-0", 1))
        history.append(TaskDone(key, 1))
    return history


def wait_coordinator_times(
    times: int, tasks: int, folder: Path, forks: ForkServer
) -> list[float]:
    """Seconds from each kill until a new process answers, with every task accounted for.

    Raises:
        RuntimeError: it came back with another number of tasks.
        TimeoutError: it does not answer.
    """
    config = JobConfig(run=fresh_run_id(), timeout_s=ANSWER_S)
    job = JobDir(folder)
    job.claim(config, "made")
    journal = Journal(job.journal)
    bodies = [msgspec.msgpack.encode(outcome) for outcome in outcomes(config.run, tasks)]
    for start in range(0, len(bodies), AT_ONCE):
        journal.append(bodies[start : start + AT_ONCE])
    journal.close()
    with hold_sockets() as sockets:
        address = f"unix:{sockets / COORDINATOR}.sock"
        job.write_run(RunFile(config.run, address, str(sockets), os.getpid()))
        place = Place(config.run, COORDINATOR, job.path, address, sockets, os.getpid())
        command = role_command(place, UserScript("", ()), dict(os.environ), 1)
        return _wait_times(times, tasks, job, command, forks)


def _wait_times(
    times: int, tasks: int, job: JobDir, command: Command, forks: ForkServer
) -> list[float]:
    log, seconds = job.log(COORDINATOR), []
    # A coordinator compacts a journal of this length as soon as it has read it.
    written, again = job.path / "written.sqlite", job.path / "again.sqlite"
    shutil.copy(job.journal, written)
    child = wait_started(forks, COORDINATOR, command, log)
    try:
        _wait_answer(job, tasks)
        for _ in range(times):
            shutil.copy(written, again)
            killed_s = time.perf_counter()
            _end(child)
            os.replace(again, job.journal)
            Path(f"{job.journal}-wal").unlink(missing_ok=True)
            child = wait_started(forks, COORDINATOR, command, log)
            _wait_answer(job, tasks)
            seconds.append(time.perf_counter() - killed_s)
    finally:
        _end(child)
    return seconds


def _end(child: Child) -> None:
    child.signal(signal.SIGKILL)
    wait_any([child], GONE_S)
    child.reap()


def _wait_answer(job: JobDir, tasks: int) -> None:
    clock = SystemClock()
    deadline = Deadline(clock, ANSWER_S)
    while True:
        try:
            queue = running_view(job, clock)["queue"]
        except TransportError as error:
            if deadline.is_over():
                raise TimeoutError(f"no answer within {ANSWER_S:g} s") from error
        else:
            break
    if not isinstance(queue, dict) or queue["done"] != tasks:
        raise RuntimeError(f"expected {tasks} tasks to be done, got {queue}")
