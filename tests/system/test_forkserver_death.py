"""A fork server that dies takes every process with it; the job goes on, and is exact."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from paceline.config import JobConfig, parse_pace
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from paceline.watch.progress import open_show

SCRIPT = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
TASKS_FIRST = 3  # trained before the fork server is killed


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_job_survives_the_death_of_its_fork_server(tmp_path: Path) -> None:
    job, verdict = JobDir(tmp_path / "job"), tmp_path / "verdict.json"
    config = JobConfig(
        run=fresh_run_id(),
        trainers=2,
        servers=1,
        pace=parse_pace("sync:reduce=sum"),
        timeout_s=120.0,
        cut_every_s=2.0,
    )
    arguments = ("--records", "1600", "--epochs", "1", "--task-size", "80")
    slowed = (*arguments, "--sleep-ms", "100", "--out", str(verdict))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    forks = ForkServer(environment, tmp_path / "log", SystemClock())
    first = forks.pid
    killed, over = threading.Event(), threading.Event()

    def kill_amid() -> None:
        while not over.wait(0.1):
            events = job.events.read_bytes() if job.events.is_file() else b""
            if events.count(b'"LeaseGranted"') > TASKS_FIRST:
                os.kill(first, signal.SIGKILL)
                killed.set()
                return

    misfortune = threading.Thread(target=kill_amid)
    misfortune.start()
    try:
        with (tmp_path / "out").open("w") as out:
            result = wait_local_run(
                LocalRun(config, UserScript(str(SCRIPT), slowed), job),
                open_show(out),
                SystemClock(),
                environment=environment,
                forks=forks,
            )
    finally:
        over.set()
        misfortune.join()
        forks.close()

    said = (tmp_path / "out").read_text()
    assert killed.is_set(), "the fork server was not killed"
    assert forks.pid != first
    assert result.verdict.exit_code == 0, (result.verdict, said)
    assert json.loads(verdict.read_text())["exact"], said
    assert min(result.summary.restarts.coordinator, result.summary.restarts.server) == 1
    assert result.summary.restarts.trainer == 2
