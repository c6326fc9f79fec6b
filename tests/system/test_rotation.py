"""Rotations in real processes: every cell once a round, whoever is killed."""

from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from tests.system.told import told

SCRIPT = Path(__file__).with_name("rotation_job.py")
POINTS = (
    "trainer.before_submit_rest=kill@6x3;trainer.between_acks=kill@17x3;"
    "trainer.before_tick=kill@9x3"
)


@pytest.mark.system
@pytest.mark.timeout(0)
def test_a_few_rounds_with_a_trainer_killed_in_each_are_exact(
    tmp_path: Path, forks: ForkServer
) -> None:
    # A process dies with its fifth cell: kills at moments would miss a job that is quick.
    points = "trainer.before_tick=kill@5x3"
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        ("--sleep-ms", "50", "--rounds", "3"),
        failpoints=points,
        trainers=3,
        timeout_s=60.0,
        limit_s=900.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.summary["records"] == 3 * 2400
    assert report.faults == {"trainer.before_tick": 3}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "options", [(), ("--slices", "1"), ("--batch-size", "40", "--step-s", "0.001")]
)
def test_rotations_are_exact_when_trainers_die_half_way(
    options: tuple[str, ...], tmp_path: Path, forks: ForkServer
) -> None:
    arguments = ("--sleep-ms", "60", "--rounds", "8", *options)
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, failpoints=POINTS, cut_every_s=2.0, limit_s=900.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    for name in parse(POINTS):
        assert report.faults.get(name) == 3, f"{name}: a fault was not injected"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_fifty_kills_of_all_roles_leave_every_round_whole(
    tmp_path: Path, forks: ForkServer
) -> None:
    kills = RandomKills(
        seed=5, number=50, within_s=110.0, kinds=("trainer", "coordinator", "server")
    )
    arguments = ("--sleep-ms", "400", "--rounds", "50")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, kills=kills, cut_every_s=2.0, limit_s=1500.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert sum(n for name, n in report.faults.items() if name.startswith("kill")) == 50
