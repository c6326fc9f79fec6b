"""Gradients sent early, in real processes that are killed: each record counts once."""

from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.job.addresses import Transport
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, wait_chaos

SCRIPT = Path(__file__).with_name("overlap_job.py")
TRAINERS = "trainer.after_early=kill@9x3;trainer.before_submit_rest=kill@12x2"
SERVERS = f"{TRAINERS};server.before_ack=kill@30x1"
PREPARED = f"{TRAINERS};server.before_commit=kill@30x1"


@pytest.mark.soak
@pytest.mark.system
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("pace", "points", "transport"),
    [
        ("sync:reduce=sum", PREPARED, "unix"),
        ("sync:reduce=sum", PREPARED, "tcp"),
        ("sync:backup=1,late=again,reduce=sum", PREPARED, "unix"),
        ("async", SERVERS, "unix"),
        ("async:pull=2", TRAINERS, "tcp"),
        ("ssp:2", SERVERS, "unix"),
    ],
)
def test_what_was_sent_early_counts_once_or_never(
    pace: str, points: str, transport: Transport, tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        pace,
        failpoints=points,
        cut_every_s=2.0,
        limit_s=600.0,
        transport=transport,
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    for name, rule in parse(points).items():
        assert report.faults.get(name) == rule.budget, f"{name}: a fault was not injected"
