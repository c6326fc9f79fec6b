"""Rows replaced by version in real processes: each once, whoever is killed."""

from pathlib import Path

import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos

SCRIPT = Path(__file__).with_name("versions_job.py")


@pytest.mark.system
@pytest.mark.timeout(0)
def test_killed_writers_leave_no_trace(tmp_path: Path, forks: ForkServer) -> None:
    points = "trainer.held=kill@9x1;trainer.committed=kill@14x1"
    kills = RandomKills(seed=3, number=1, within_s=2.0, kinds=("server",))
    arguments = ("--batches", "600")
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        arguments,
        failpoints=points,
        kills=kills,
        cut_every_s=1.0,
        trainers=2,
        limit_s=600.0,
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    assert report.faults.get("trainer.held") == 1
    assert report.faults.get("trainer.committed") == 1
    assert report.returns, "no server was killed"
