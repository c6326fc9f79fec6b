"""A model that is unshared and shared again, layer by layer, while processes die."""

from pathlib import Path

import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from tests.system.told import told

SCRIPT = Path(__file__).with_name("unshare_job.py")
PACES = ["sync:reduce=sum", "async:push=3"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(0)]


def test_layers_are_unfrozen_one_by_one_though_a_trainer_and_a_server_die(
    tmp_path: Path, forks: ForkServer
) -> None:
    points = "trainer.after_task=kill@5x1;server.after_prepare=kill@150x1"
    plan = ChaosPlan(
        SCRIPT, PACES[0], failpoints=points, trainers=2, cut_every_s=1.0, timeout_s=60.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.summary["status"] == "finished"
    assert report.faults == {"trainer.after_task": 1, "server.after_prepare": 1}


@pytest.mark.soak
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("seed", range(4))
def test_layers_are_unfrozen_one_by_one_though_anybody_dies(
    seed: int, pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        pace,
        ("--records", "1600", "--sleep-ms", "60"),
        kills=RandomKills(seed, 10, 40.0, ("trainer", "coordinator", "server")),
        cut_every_s=2.0,
        limit_s=900.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert sum(n for name, n in report.faults.items() if name.startswith("kill ")) == 10
