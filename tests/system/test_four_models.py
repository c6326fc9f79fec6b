"""Four models of computation come to one result, whichever way processes talk."""

import json
import os
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.commands import UserScript
from paceline.launch.folder import JobDir
from paceline.launch.forkserver import ForkServer
from paceline.launch.local import LocalRun, fresh_run_id, wait_local_run
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.system.four_models_job import EPOCHS, MODELS
from tests.system.ways import EVERY_WAY, Way

SCRIPT = Path(__file__).with_name("four_models_job.py")
RECORDS = 480

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
            transport=transport,
        )
    assert result.verdict.exit_code == 0, (tmp_path / "show").read_text()
    assert json.loads(out.read_text()) == {"exact": True, "wrong": 0}
    assert result.summary.records == RECORDS * EPOCHS
