"""Real processes are killed while they evaluate and predict: every record counts once."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from paceline.config import JobConfig
from paceline.failpoints import ARM_VARIABLE
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.system.evaluation import RECORDS, TASK
from tests.system.events import events_of

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

SCRIPT = Path(__file__).with_name("evaluation.py")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
NUM_TASKS = RECORDS // TASK
POINTS = {
    "trainer.evaluated_batch": "kill@30x2",
    "trainer.before_finish": "kill@4x1",
    "trainer.after_finish": "kill@5x1",
    "trainer.before_value": "kill@1x1",
    "coordinator.before_journal": "kill@60x1",
}


@contextmanager
def server_killed(forks: ForkServer, job: Path, after: int) -> Iterator[list[int]]:
    """Kill a server when so many tasks of evaluation are done; its pid, if it was."""
    killed: list[int] = []
    over = threading.Event()

    def kill_one() -> None:
        while not over.wait(0.02):
            done = [e for e in events_of(job, "TaskDone") if e["records"] == 0]
            if len(done) < after:
                continue
            for process in psutil.Process(forks.pid).children():
                if process.name() == "server-0":
                    process.kill()
                    killed.append(process.pid)
                    return

    thread = threading.Thread(target=kill_one)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def wait_run(forks: ForkServer, folder: Path, points: dict[str, str]) -> RunResult:
    config = JobConfig(
        run=fresh_run_id(), trainers=3, servers=2, timeout_s=60.0, cut_every_s=0.5
    )
    script = UserScript(str(SCRIPT), ("--out", str(folder / "out.json")))
    armed = ";".join(f"{name}={rule}" for name, rule in points.items())
    with (folder / "shown").open("w") as shown:
        return wait_local_run(
            LocalRun(config, script, JobDir(folder / "job")),
            open_show(shown),
            SystemClock(),
            environment={**ONE_THREAD, ARM_VARIABLE: armed},
            forks=forks,
        )


def test_evaluation_after_an_early_stop_is_exact_whoever_is_killed(
    forks: ForkServer, tmp_path: Path
) -> None:
    with server_killed(forks, tmp_path / "job", after=8) as killed:
        result = wait_run(forks, tmp_path, POINTS)
    assert result.summary.status == "stopped", (tmp_path / "shown").read_text()[-2000:]
    verdict = json.loads((tmp_path / "out.json").read_text())
    assert verdict["counts"] == verdict["expected"]
    assert sum(map(sum, verdict["counts"])) == RECORDS
    assert verdict["is_close"]
    assert verdict["files"] == verdict["listed"] == NUM_TASKS
    fired = {
        path.name.rsplit(".", 1)[0]
        for path in JobDir(tmp_path / "job").failpoints.iterdir()
    }
    assert fired == set(POINTS), "a fault was not injected"
    assert killed
    assert events_of(tmp_path / "job", "Returned"), "no server was lost"
