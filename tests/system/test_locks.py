"""Locks in real processes: no two trainers ever have the same row, whoever is killed."""

from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, ChaosReport, RandomKills, wait_chaos

SCRIPT = Path(__file__).with_name("locking_job.py")
POINTS = (
    "trainer.before_submit_rest=kill@30x2;trainer.between_acks=kill@41x2;"
    "trainer.held=kill@17x3;trainer.committed=kill@23x3;trainer.before_tick=kill@29x2"
)


def told(report: ChaosReport) -> ChaosReport:
    print(f"{report.verdict} {report.faults} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    return report


@pytest.mark.system
@pytest.mark.timeout(0)
def test_frozen_and_killed_holders_leave_no_trace(
    tmp_path: Path, forks: ForkServer
) -> None:
    points = "trainer.held=kill@9x1;trainer.committed=kill@14x1"
    arguments = ("--batches", "100", "--freezes", "1")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, failpoints=points, trainers=2, limit_s=600.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.faults.get("trainer.held") == 1
    assert report.faults.get("trainer.committed") == 1
    assert report.verdict["lost"], "nobody was frozen for longer than its lease"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_ten_thousand_contended_locks(tmp_path: Path, forks: ForkServer) -> None:
    arguments = ("--batches", "2500", "--epochs", "4", "--freezes", "4")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, failpoints=POINTS, trainers=4, limit_s=3000.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    for name, armed in parse(POINTS).items():
        assert report.faults.get(name) == armed.budget, f"{name}: not injected"
    assert report.verdict["lost"], "nobody was frozen for longer than its lease"
    assert report.verdict["longest wait"] < 60.0


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_kills_of_all_roles_leave_whole_steps(tmp_path: Path, forks: ForkServer) -> None:
    kills = RandomKills(
        seed=7, number=20, within_s=120.0, kinds=("trainer", "coordinator", "server")
    )
    arguments = ("--batches", "2500", "--epochs", "2")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, kills=kills, cut_every_s=2.0, limit_s=3000.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.returns, "no return to a cut happened"
