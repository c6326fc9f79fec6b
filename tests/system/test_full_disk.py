"""A disk is full for a while, or for good: what is said, and that counts stay exact.

What users read in each case: ``pytest -m "" -s -k reads tests/system/test_full_disk.py``.
"""

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from paceline.config import JobConfig, Sync
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import Deadline
from paceline.watch.progress import Lines
from paceline.watch.summary import Ending, Restarts
from tests.system.disk_scenes import (
    AT_ONCE,
    CLOCK,
    FROM_START,
    IN_TIME,
    LIMIT_S,
    PLACE_AT_ONCE,
    PLACE_IN_TIME,
    SCRIPT,
    Case,
    Disk,
    Way,
    reads,
)
from tests.system.events import events_of

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(900)]

RECORDS = 3200
LOOP = ("--records", str(RECORDS), "--ids", "100", "--epochs", "1", "--sleep-ms", "15")
FULL = "waiting for space on the disk of {}: the disk is full"


class Run:
    """A run of the counting job, watched while it goes on."""

    def __init__(self, forks: ForkServer, job: Path, **options: Any) -> None:
        self.forks, self.job = forks, JobDir(job)
        self.config = {"trainers": 2, "cut_every_s": 2.0, **options}
        self.loop = LOOP
        self.out, self.verdict = io.StringIO(), job.parent.with_suffix(".json")

    def until(self, happened: Callable[[], bool]) -> None:
        deadline = Deadline(CLOCK, LIMIT_S)
        while not happened():
            assert not deadline.is_over(), self.out.getvalue()
            time.sleep(0.05)

    def leased(self, more: int) -> Callable[[], bool]:
        before = len(events_of(self.job.path, "LeaseGranted"))
        return lambda: len(events_of(self.job.path, "LeaseGranted")) >= before + more

    def said(self, text: str, times: int = 1) -> Callable[[], bool]:
        return lambda: self.out.getvalue().count(text) >= times

    def result(self, *acts: Callable[[], object], is_resumed: bool = False) -> RunResult:
        """Run to the end; each act is done, one after the other, meanwhile."""
        failed: list[BaseException] = []

        def conduct() -> None:
            try:
                for act in acts:
                    act()
            except BaseException as error:  # noqa: BLE001  (told by the test's own thread)
                failed.append(error)
                os.kill(os.getpid(), signal.SIGINT)

        conductor = threading.Thread(target=conduct)
        conductor.start()
        config = JobConfig(run=fresh_run_id(), pace=Sync(reduce="sum"), **self.config)
        arguments = (*self.loop, "--out", str(self.verdict))
        local = LocalRun(config, UserScript(str(SCRIPT), arguments), self.job, is_resumed)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        result = wait_local_run(
            local, Lines(self.out), CLOCK, environment=environment, forks=self.forks
        )
        conductor.join(LIMIT_S)
        assert not failed, (failed, self.out.getvalue())
        return result

    def is_exact(self) -> bool:
        return bool(json.loads(self.verdict.read_text())["exact"])


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_full_disk_of_the_job_folder_is_waited_for_and_then_left_by_ctrl_c(
    disk: Disk, forks: ForkServer
) -> None:
    run = Run(forks, disk.place / "job")
    full = FULL.format(run.job.path)
    first = run.result(
        lambda: run.until(run.leased(4)),
        disk.fill,
        lambda: run.until(run.said(full)),
        lambda: time.sleep(2.5),  # trainers and servers are told meanwhile
        disk.free,
        lambda: run.until(run.said("again: the job goes on")),
        lambda: run.until(run.leased(4)),
        disk.fill,
        lambda: run.until(run.said(full, times=2)),
        interrupt,
    )
    assert first.verdict.ending is Ending.INTERRUPTED
    assert full in first.verdict.reason
    command = f"paceline run --resume --job-dir {run.job.path} {SCRIPT}"
    assert first.said[-1].startswith(f"go on with: {command}")
    assert run.job.read_run() is None, "nobody looks for a job that runs"
    assert first.summary.restarts == Restarts(), "nobody was killed for a full disk"
    (waited,) = events_of(run.job.path, "DiskAwaited")
    assert float(str(waited["seconds"])) > 2.0
    disk.free()
    last = run.result(is_resumed=True)
    assert last.verdict.ending is Ending.TRAINED
    assert last.summary.records == RECORDS
    assert run.is_exact()


def test_a_last_checkpoint_without_space_is_named_and_bounded(
    disk: Disk, tmp_path: Path, forks: ForkServer
) -> None:
    cuts = disk.place / "cuts"
    (tmp_path / "place").mkdir()
    run = Run(
        forks,
        tmp_path / "place" / "job",
        checkpoints=str(cuts),
        cut_every_s=0.0,
        disk_wait_s=1.0,
    )
    first = run.result(lambda: run.until(run.leased(4)), disk.fill)
    assert first.verdict.ending is Ending.FAILED
    assert first.verdict.exit_code == 1
    for words in ("waits for the last checkpoint", str(cuts), "the disk is full"):
        assert words in first.verdict.reason
        assert words in run.out.getvalue()
    assert "--disk-wait (1 s)" in first.verdict.reason
    assert first.said[-1].startswith("go on with: paceline run --resume")
    assert first.summary.records == RECORDS
    disk.free()
    last = run.result(is_resumed=True)
    assert last.verdict.ending is Ending.TRAINED
    assert run.is_exact()


@pytest.mark.soak
def test_a_disk_of_job_and_checkpoints_that_is_full_again_and_again(
    disk: Disk, forks: ForkServer
) -> None:
    run, random = Run(forks, disk.place / "job", cut_every_s=0.5), Random(7)
    run.loop = ("--records", "16000", *LOOP[2:])

    def fill_again_and_again() -> None:
        for _ in range(12):
            time.sleep(random.uniform(0.2, 2.0))  # in a cut as well as between two
            disk.fill()
            time.sleep(random.uniform(0.5, 4.0))
            disk.free()

    result = run.result(lambda: run.until(run.leased(4)), fill_again_and_again)
    assert result.verdict.ending is Ending.TRAINED
    assert result.summary.restarts == Restarts()
    assert events_of(run.job.path, "DiskAwaited")
    assert run.is_exact()


@pytest.mark.soak
def test_a_place_of_checkpoints_that_is_read_only_for_a_while(
    disk: Disk, tmp_path: Path, forks: ForkServer
) -> None:
    (tmp_path / "place").mkdir()
    job = tmp_path / "place" / "job"
    run = Run(forks, job, checkpoints=str(disk.place), cut_every_s=0.5)
    result = run.result(
        lambda: run.until(run.leased(4)),
        disk.forbid,
        lambda: run.until(run.said("the disk is read-only")),
        lambda: time.sleep(8.0),
        disk.allow,
        lambda: run.until(run.said("checkpoints are written again")),
    )
    assert result.verdict.ending is Ending.TRAINED
    assert run.is_exact()


@pytest.mark.parametrize("way", ["run", "python"])
@pytest.mark.parametrize("case", FROM_START, ids=lambda case: case.name)
def test_what_a_user_reads_from_the_start(
    disk: Disk, tmp_path: Path, way: Way, case: Case
) -> None:
    reads(disk, tmp_path, way, case)


@pytest.mark.parametrize("way", ["run", pytest.param("python", marks=pytest.mark.soak)])
@pytest.mark.parametrize("case", AT_ONCE, ids=lambda case: case.name)
def test_what_a_user_reads_at_once(
    disk: Disk, tmp_path: Path, way: Way, case: Case
) -> None:
    reads(disk, tmp_path, way, case)


@pytest.mark.parametrize("case", PLACE_AT_ONCE, ids=lambda case: case.name)
def test_what_a_user_reads_of_a_place(disk: Disk, tmp_path: Path, case: Case) -> None:
    reads(disk, tmp_path, "run", case)


@pytest.mark.soak
@pytest.mark.parametrize("way", ["run", "python"])
@pytest.mark.parametrize("case", IN_TIME, ids=lambda case: case.name)
def test_what_a_user_reads_in_time(
    disk: Disk, tmp_path: Path, way: Way, case: Case
) -> None:
    reads(disk, tmp_path, way, case)


@pytest.mark.soak
@pytest.mark.parametrize("case", PLACE_IN_TIME, ids=lambda case: case.name)
def test_what_a_user_reads_of_a_place_in_time(
    disk: Disk, tmp_path: Path, case: Case
) -> None:
    reads(disk, tmp_path, "run", case)
