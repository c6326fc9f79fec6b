"""Batches taken ahead of their steps, in real processes that are killed: exact.

`make test` kills a trainer, a server and the coordinator once each; `make soak` kills more
of them, at any moment.
"""

from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from tests.system import ahead_job
from tests.system.told import told

SCRIPT = Path(ahead_job.__file__)
SYNC, ASYNC, BOUNDED = "sync:reduce=sum", "async", "ssp:1"
SERVER = {SYNC: "server.after_prepare", ASYNC: "server.before_ack"}


@pytest.mark.system
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, ASYNC])
def test_counts_are_exact_when_each_role_is_killed_in_mid_loop(
    pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    points = (
        f"trainer.before_tick=kill@7x1;{SERVER[pace]}=kill@26x1;"
        "coordinator.before_reply=kill@40x1"
    )
    arguments = ("--records", "480", "--sleep-ms", "10")
    plan = ChaosPlan(
        SCRIPT, pace, arguments, points, trainers=2, cut_every_s=0.5, limit_s=120.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.summary["status"] == "finished"
    for name in parse(points):
        assert report.faults.get(name) == 1, f"{name}: a fault was not injected"
    assert report.returns, "no return to a cut happened"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, ASYNC, BOUNDED])
@pytest.mark.parametrize("lookahead", [1, 2, 5])
def test_counts_are_exact_under_random_kills(
    pace: str, lookahead: int, tmp_path: Path, forks: ForkServer
) -> None:
    arguments = ("--records", "1600", "--epochs", "4", "--sleep-ms", "30")
    kinds = ("trainer", "server", "coordinator")
    plan = ChaosPlan(
        SCRIPT,
        pace,
        (*arguments, "--lookahead", str(lookahead)),
        kills=RandomKills(lookahead, number=9, within_s=12.0, kinds=kinds),
        cut_every_s=1.0,
        limit_s=900.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    killed = sum(times for name, times in report.faults.items() if "kill " in name)
    assert killed == 9, report.faults
