"""Four models of computation come to one result, whichever way processes talk."""

import json
import os
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, Reach, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.system.four_models_job import EPOCHS, MODELS
from tests.system.ways import EVERY_WAY, Way

SCRIPT = Path(__file__).with_name("four_models_job.py")
RECORDS = 480
DEATH = "trainer.before_tick=kill@6"

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]


@EVERY_WAY
@pytest.mark.parametrize("model", MODELS)
def test_each_model_comes_to_the_one_result(
    model: str,
    way: Way,
    forks: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    transport = way.choose(monkeypatch)
    out = tmp_path / "verdict"
    words = ("--model", model, "--records", str(RECORDS), "--out", str(out))
    config = JobConfig(run=fresh_run_id(), trainers=2, servers=2, timeout_s=120.0)
    with (tmp_path / "show").open("w") as show:
        result = wait_local_run(
            LocalRun(config, UserScript(str(SCRIPT), words), JobDir(tmp_path / "job")),
            open_show(show),
            SystemClock(),
            environment={**os.environ, "OMP_NUM_THREADS": "1"},
            forks=forks,
            reach=Reach(transport),
        )
    assert result.verdict.exit_code == 0, (tmp_path / "show").read_text()
    assert json.loads(out.read_text()) == {"exact": True, "wrong": 0}
    assert result.summary.records == RECORDS * EPOCHS


@pytest.mark.parametrize("model", MODELS)
def test_a_trainer_that_dies_half_way_changes_nothing(
    model: str, forks: ForkServer, tmp_path: Path
) -> None:
    words = ("--model", model, "--records", str(RECORDS), "--sleep-ms", "10")
    plan = ChaosPlan(
        SCRIPT, "sync", words, failpoints=DEATH, trainers=2, timeout_s=60.0, limit_s=900.0
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    assert report.faults.get("trainer.before_tick") == 1, "nobody was killed"
    assert report.summary["records"] == RECORDS * EPOCHS


@pytest.mark.soak
@pytest.mark.parametrize("model", MODELS)
def test_ten_kills_of_all_roles_change_nothing(
    model: str, forks: ForkServer, tmp_path: Path
) -> None:
    kinds = ("trainer", "trainer", "coordinator", "server")
    kills = RandomKills(seed=3, number=10, within_s=60.0, kinds=kinds)
    words = ("--model", model, "--records", "9600", "--sleep-ms", "150")
    plan = ChaosPlan(SCRIPT, "sync", words, kills=kills, cut_every_s=2.0, limit_s=1500.0)
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    assert sum(n for name, n in report.faults.items() if name.startswith("kill")) == 10
