"""Scheduler, EMA, BatchNorm, accumulation and `break`: equal to the plain loop, to the bit.

`make test` runs the script in one process, in four, and with two kills; `make soak` kills
at every failpoint.
"""

import json
import os
import time
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.failpoints import ARM_VARIABLE
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import wait_any
from paceline.timing import Deadline, SystemClock
from paceline.watch.progress import open_show

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

SCRIPT = Path(__file__).with_name("user_state.py")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
WAIT_S = 600.0
KILLED = [
    "trainer.before_submit_rest=kill@9x1",
    "trainer.between_acks=kill@9x1",
    "trainer.before_tick=kill@9x1",
    "trainer.prepared=kill@9x1",
    "trainer.after_tick=kill@9x1",
    "trainer.after_task=kill@3x1",
    "coordinator.before_journal=kill@30x1",
    "coordinator.before_reply=kill@30x1",
    "coordinator.before_manifest=kill@3x1",
    "store.before_manifest=kill@3x1",
    "store.after_manifest=kill@3x1",
    "server.before_decide=kill@9x1",
    "server.after_prepare=kill@9x1",
    "server.before_commit=kill@9x1",
    "server.snapshot=kill@3x1",
    "server.after_snapshot=kill@3x1",
]


@pytest.fixture(scope="module")
def plain(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> object:
    """What the loop without paceline comes to."""
    folder = tmp_path_factory.mktemp("plain")
    return wait_alone(forks, folder, "--plain")


def wait_alone(forks: ForkServer, folder: Path, *arguments: str) -> object:
    out = folder / "out.json"
    environment = {**ONE_THREAD, "PACELINE_JOB_DIR": str(folder / "job")}
    command = Command((str(SCRIPT), *arguments, "--out", str(out)), environment)
    deadline = Deadline(SystemClock(), WAIT_S)
    while (child := forks.start("trainer-0", command, folder / "log")) is None:
        assert not deadline.is_over(), "the fork server is not ready"
        time.sleep(0.05)
    assert wait_any([child], WAIT_S) == [child]
    # The loop that is left by `break` leaves records out: no job ends well with that.
    expected = 0 if "--plain" in arguments else 1
    assert child.reap() == expected, child.last_lines()
    return json.loads(out.read_text())


def wait_run(
    forks: ForkServer, folder: Path, failpoints: str = ""
) -> tuple[object, RunResult]:
    out = folder / "out.json"
    config = JobConfig(
        run=fresh_run_id(), trainers=1, servers=2, timeout_s=60.0, cut_every_s=0.2
    )
    script = UserScript(str(SCRIPT), ("--slow", "--out", str(out)))
    job = JobDir(folder / "job")
    with (folder / "shown").open("w") as shown:
        result = wait_local_run(
            LocalRun(config, script, job),
            open_show(shown),
            SystemClock(),
            environment={**ONE_THREAD, ARM_VARIABLE: failpoints},
            forks=forks,
        )
    return json.loads(out.read_text()), result


def test_embedded_equals_the_plain_loop(
    forks: ForkServer, tmp_path: Path, plain: object
) -> None:
    assert wait_alone(forks, tmp_path) == plain


def test_a_job_whose_trainer_is_killed_equals_the_plain_loop(
    forks: ForkServer, tmp_path: Path, plain: object
) -> None:
    values, result = wait_run(forks, tmp_path, "trainer.after_tick=kill@12x1")
    assert values == plain
    assert result.summary.restarts.trainer == 1


def test_a_job_that_returns_behind_an_ended_loop_equals_the_plain_loop(
    forks: ForkServer, tmp_path: Path, plain: object
) -> None:
    values, result = wait_run(forks, tmp_path, "server.after_commit=kill@9x1")
    assert values == plain
    assert result.summary.restarts.server == 1


@pytest.mark.soak
@pytest.mark.parametrize("failpoints", KILLED)
def test_killed_at_any_point_it_equals_the_plain_loop(
    failpoints: str, forks: ForkServer, tmp_path: Path, plain: object
) -> None:
    values, result = wait_run(forks, tmp_path, failpoints)
    assert values == plain
    restarts = result.summary.restarts
    assert restarts.trainer + restarts.coordinator + restarts.server >= 1, restarts


def test_behind_a_loop_that_was_over_the_model_is_as_it_is_now(
    forks: ForkServer, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    config = JobConfig(run=fresh_run_id(), trainers=1, servers=1)
    script = UserScript(str(SCRIPT.with_name("passing_job.py")), (str(out),))
    with (tmp_path / "shown").open("w") as shown:
        result = wait_local_run(
            LocalRun(config, script, JobDir(tmp_path / "job")),
            open_show(shown),
            SystemClock(),
            environment=ONE_THREAD,
            forks=forks,
        )
    assert result.summary.restarts.trainer == 1
    told = json.loads(out.read_text())
    for means in told["means"]:  # features are 5 on average
        assert all(abs(mean - 5.0) < 0.5 for mean in means), told
    assert told["steps"] == 2, "its scheduler was stepped behind each loop, and once each"
