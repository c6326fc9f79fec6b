"""Values between real processes: each batch once, and the same bits for all."""

import json
from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, ChaosReport, RandomKills, wait_chaos

SCRIPT = Path(__file__).with_name("allreduce_job.py")
POINTS = (
    "trainer.laid_out=kill@19x3;trainer.before_tick=kill@31x3;"
    "trainer.before_submit_rest=kill@23x3"
)


def check(report: ChaosReport, folder: Path) -> None:
    """Everybody who came to the end has the same counts, and was told the same bits."""
    print(f"{report.faults} {report.counters} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    assert report.is_exact(), report.verdict
    ends = [json.loads(path.read_text()) for path in sorted(folder.rglob("trainer-*.json"))]
    assert ends
    for end in ends:
        assert end["exact"], ends
        assert end["chain"] == ends[0]["chain"]


@pytest.mark.system
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("transport", "how"),
    [
        ("unix", "regroup+allgather"),
        ("tcp", "regroup+allgather"),
        ("unix", "push+pull"),
        ("tcp", "push+pull"),
    ],
)
def test_three_trainers_count_exactly_and_alike(
    transport: str, how: str, tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        ("--records", "800", "--how", how),
        timeout_s=120.0,
        limit_s=1500.0,
        transport="tcp" if transport == "tcp" else "unix",
    )
    check(wait_chaos(plan, tmp_path, forks), tmp_path)


@pytest.mark.system
@pytest.mark.timeout(0)
def test_trainers_that_die_in_an_exchange_are_in_no_result(
    tmp_path: Path, forks: ForkServer
) -> None:
    arguments = ("--records", "3200", "--epochs", "1")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, failpoints=POINTS, cut_every_s=2.0, limit_s=900.0
    )
    report = wait_chaos(plan, tmp_path, forks)
    check(report, tmp_path)
    for name in parse(POINTS):
        assert report.faults.get(name) == 3, f"{name}: a fault was not injected"


@pytest.mark.system
@pytest.mark.timeout(0)
def test_what_servers_reduce_is_of_exactly_those_who_count(
    tmp_path: Path, forks: ForkServer
) -> None:
    points = (
        "trainer.before_tick=kill@31x3;trainer.before_submit_rest=kill@23x3;"
        "server.before_commit=kill@40x2"
    )
    arguments = ("--records", "3200", "--epochs", "1", "--how", "push+pull")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, failpoints=points, cut_every_s=2.0, limit_s=900.0
    )
    report = wait_chaos(plan, tmp_path, forks)
    check(report, tmp_path)
    assert report.faults.get("trainer.before_tick") == 3, report.faults
    assert report.faults.get("server.before_commit"), report.faults


@pytest.mark.system
@pytest.mark.timeout(0)
def test_a_model_without_servers_is_the_same_for_all_who_survive(
    tmp_path: Path, forks: ForkServer
) -> None:
    script = SCRIPT.with_name("between_job.py")
    plan = ChaosPlan(script, "sync", failpoints=POINTS, cut_every_s=2.0, limit_s=900.0)
    report = wait_chaos(plan, tmp_path, forks)
    check(report, tmp_path)
    assert report.faults.get("trainer.laid_out"), report.faults


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_hundred_changes_of_membership(tmp_path: Path, forks: ForkServer) -> None:
    kills = RandomKills(
        seed=3, number=50, within_s=200.0, kinds=("trainer", "coordinator", "server")
    )
    arguments = ("--sleep-ms", "60", "--records", "6400", "--epochs", "30")
    plan = ChaosPlan(
        SCRIPT,
        "sync",
        arguments,
        kills=kills,
        most_trainers=5,
        scale_every_s=2.0,
        cut_every_s=2.0,
        limit_s=2500.0,
    )
    report = wait_chaos(plan, tmp_path, forks)
    check(report, tmp_path)
    assert sum(n for name, n in report.faults.items() if name.startswith("kill")) == 50
    assert report.faults.get("scaled", 0) >= 50, report.faults
