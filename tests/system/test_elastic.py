"""A job that grows, shrinks, is interrupted and goes on elsewhere counts exactly."""

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import psutil
import pytest

from paceline.config import JobConfig, Sync
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.job.operating import call_until_done
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.messages.watching import Scale
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending
from tests.system.events import events_of

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
RECORDS = 16_000
LOOP = ("--records", str(RECORDS), "--ids", "100", "--epochs", "1", "--sleep-ms", "15")
CLOCK = SystemClock()


class Conductor:
    """Does one thing after the other while a job runs, each once its moment has come."""

    def __init__(self, job: JobDir) -> None:
        self.job = job
        self.left: list[tuple[Callable[[], bool], Callable[[], object]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def at(self, moment: Callable[[], bool], do: Callable[[], object]) -> None:
        self.left.append((moment, do))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.1):
            if self.left and self.left[0][0]():
                self.left.pop(0)[1]()

    def events(self, name: str) -> list[dict[str, object]]:
        return events_of(self.job.path, name)

    def leased(self, times: int) -> Callable[[], bool]:
        """That many leases more have been granted than when it is first looked."""
        begun: list[int] = []

        def moment() -> bool:
            now = len(self.events("LeaseGranted"))
            begun[:] = begun or [now]
            return now >= begun[0] + times

        return moment

    def members(self, trainers: int) -> Callable[[], bool]:
        """The coordinator counts so many trainers."""

        def moment() -> bool:
            joined = {
                str(e["trainer"]): e["incarnation"] for e in self.events("TrainerJoined")
            }
            gone = [e["incarnation"] for e in self.events("TrainerLeft")]
            gone += [e["incarnation"] for e in self.events("TrainerLost")]
            return sum(i not in gone for i in joined.values()) == trainers

        return moment


def run(
    forks: ForkServer,
    job: JobDir,
    *,
    trainers: tuple[int, int],
    servers: int,
    arguments: Sequence[str] = (),
    is_resumed: bool = False,
) -> RunResult:
    config = JobConfig(
        run=fresh_run_id(),
        trainers=trainers[0],
        most_trainers=trainers[1],
        servers=servers,
        pace=Sync(reduce="sum"),
        timeout_s=60.0,
    )
    script = UserScript(str(SCRIPT), (*LOOP, *arguments))
    local = LocalRun(config, script, job, is_resumed)
    with job.path.with_suffix(".out").open("a") as out:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return wait_local_run(
            local, open_show(out), CLOCK, environment=environment, forks=forks
        )


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_job_counts_exactly_while_it_grows_and_shrinks_and_goes_on_elsewhere(
    tmp_path: Path, forks: ForkServer
) -> None:
    job, verdict = JobDir(tmp_path / "job"), tmp_path / "verdict.json"
    arguments = ("--out", str(verdict))

    def tell_one_to_leave() -> None:
        for pid in _pids(forks, "trainer-0"):
            os.kill(pid, signal.SIGTERM)

    with Conductor(job) as conductor:
        conductor.at(
            conductor.members(2), lambda: call_until_done(job, Scale(trainers=3), CLOCK)
        )
        conductor.at(conductor.members(3), tell_one_to_leave)
        conductor.at(conductor.members(2), lambda: None)
        conductor.at(
            conductor.members(3), lambda: call_until_done(job, Scale(trainers=1), CLOCK)
        )
        conductor.at(conductor.members(1), lambda: None)
        conductor.at(conductor.leased(2), interrupt)
        first = run(forks, job, trainers=(2, 0), servers=2, arguments=arguments)

    assert first.verdict.ending is Ending.INTERRUPTED, first.verdict
    assert not conductor.left, "the job was over too early"
    assert not conductor.events("TrainerLost"), "everybody left in good order"
    assert 0 < first.summary.records < RECORDS
    second = run(
        forks, job, trainers=(2, 0), servers=3, arguments=arguments, is_resumed=True
    )
    assert second.verdict.ending is Ending.TRAINED, second.verdict
    assert second.summary.records == RECORDS
    assert json.loads(verdict.read_text())["exact"]


def test_an_interrupted_run_loses_no_acknowledged_record(
    tmp_path: Path, forks: ForkServer
) -> None:
    job = JobDir(tmp_path / "job")
    with Conductor(job) as conductor:
        conductor.at(conductor.leased(4), interrupt)
        first = run(forks, job, trainers=(1, 2), servers=1)
    assert "saved as cut" in first.verdict.reason
    with Conductor(job) as conductor:
        conductor.at(lambda: bool(conductor.events("Resumed")), interrupt)
        second = run(forks, job, trainers=(1, 2), servers=1, is_resumed=True)
    assert second.summary.records >= first.summary.records


def _pids(forks: ForkServer, role: str) -> list[int]:

    children = psutil.Process(forks.pid).children()
    return [child.pid for child in children if child.name() == role]
