"""The counting job in real processes: exact, whoever is killed, and where.

`make test` runs one job undisturbed; `make soak` runs the kills. Every kill test asserts
that its faults really happened, and prints them.
"""

import tempfile
from pathlib import Path

import psutil
import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from tests.system.told import told

SCRIPT = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
JOB = ("--records", "3200", "--ids", "300", "--epochs", "2", "--task-size", "160")
SLOWED = (*JOB, "--sleep-ms", "80")
LONG = ("--records", "3200", "--ids", "300", "--epochs", "10", "--task-size", "160")
SYNC, ASYNC, MERGED = "sync:reduce=sum", "async:push=4,pull=8", "async:merge=4"
BOUNDED, AGAIN = "ssp:2", "sync:reduce=sum,backup=1,late=again"
FRESH = "async:drop=1,old=again"
WINDOWS = {  # {window: failpoint, and how it is armed}
    # The first dies when one server alone has the push, the other when both may have it.
    "between two servers' acknowledgements": (
        "trainer.before_submit_rest=kill@6x3;trainer.between_acks=kill@7x3"
    ),
    "acknowledged, not ticked": "trainer.before_tick=kill@9x3",
    # In `async` a job journals some 40 to 70 times, and each coordinator counts anew.
    "between journal and reply": "coordinator.before_reply=kill@12x3",
    "during a cut": "coordinator.before_manifest=kill@2x3",
    "a zombie after its task's end": "trainer.after_task=stop@2x3",
}
SERVER_POINTS = {  # servers die, and trainers beside them
    SYNC: "server.after_prepare=kill@40x1;server.before_commit=kill@30x1;"
    "server.snapshot=kill@3x1;trainer.before_tick=kill@9x2",
    ASYNC: "server.before_ack=kill@40x2;server.snapshot=kill@3x1;"
    "trainer.before_tick=kill@9x2",
}
SERVER_POINTS[MERGED] = SERVER_POINTS[BOUNDED] = SERVER_POINTS[ASYNC]
SERVER_POINTS[FRESH] = SERVER_POINTS[ASYNC]
SERVER_POINTS[AGAIN] = SERVER_POINTS[SYNC]
PREPARED = {"prepared, not committed": "trainer.prepared=kill@8x3"}


@pytest.mark.system
@pytest.mark.timeout(0)
def test_two_trainers_and_two_servers_count_exactly(
    tmp_path: Path, forks: ForkServer
) -> None:
    arguments = ("--records", "1600", "--ids", "50", "--epochs", "1")
    plan = ChaosPlan(
        SCRIPT, SYNC, arguments, trainers=2, servers=2, timeout_s=120.0, limit_s=1500.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.summary["status"] == "finished"
    assert report.summary["records"] == 1600
    assert report.summary["restarts"] == {"coordinator": 0, "server": 0, "trainer": 0}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, ASYNC])
@pytest.mark.parametrize("window", [*WINDOWS, *PREPARED])
def test_counts_are_exact_when_killed_in(
    window: str, pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    if window in PREPARED and pace != SYNC:
        pytest.skip("only rounds prepare")
    point = {**WINDOWS, **PREPARED}[window]
    plan = ChaosPlan(SCRIPT, pace, SLOWED, failpoints=point, cut_every_s=2.0, limit_s=900.0)
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    for name in parse(point):
        assert report.faults.get(name) == 3, f"{name}: a fault was not injected"
    if "acknowledgements" in window:
        survived = "prepared_dropped" if pace == SYNC else "duplicates"
        assert report.counters[survived] > 0, "no push was half way"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, ASYNC, MERGED, BOUNDED, AGAIN, FRESH])
def test_counts_are_exact_when_servers_die_too(
    pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    points = SERVER_POINTS[pace]
    plan = ChaosPlan(
        SCRIPT, pace, SLOWED, failpoints=points, cut_every_s=2.0, limit_s=900.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    for name, rule in parse(points).items():
        assert report.faults.get(name) == rule.budget, f"{name}: a fault was not injected"
    assert report.returns, "no return to a cut happened"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, ASYNC])
def test_counts_are_exact_when_they_travel_in_halves(
    pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    """Rows count no further here than bf16 counts exactly, which is to 256."""
    between = WINDOWS["between two servers' acknowledgements"]
    points = f"{SERVER_POINTS[pace]};{between}"
    plan = ChaosPlan(
        SCRIPT,
        f"{pace},codec=bf16",
        SLOWED,
        failpoints=points,
        cut_every_s=2.0,
        limit_s=900.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    for name, rule in parse(points).items():
        assert report.faults.get(name) == rule.budget, f"{name}: a fault was not injected"
    assert report.returns, "no return to a cut happened"
    sent = report.counters["part-0.gradient_bytes_sent"]
    assert 0 < sent < report.counters["part-0.gradient_bytes"]


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(10))
def test_counts_are_exact_under_random_kills(
    seed: int, tmp_path: Path, forks: ForkServer
) -> None:
    pace = SYNC if seed % 2 else ASYNC
    plan = ChaosPlan(
        SCRIPT,
        pace,
        (*LONG, "--sleep-ms", "80"),  # longer than the kills take, on any machine
        kills=RandomKills(seed, number=12, within_s=50.0),
        limit_s=1800.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    kills = sum(n for name, n in report.faults.items() if name.startswith("kill "))
    assert kills == 12


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(20))
def test_counts_are_exact_while_trainers_come_and_go_and_anybody_dies(
    seed: int, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        SYNC if seed % 2 else ASYNC,
        (*LONG, "--sleep-ms", "80"),
        kills=RandomKills(100 + seed, 10, 30.0, ("trainer", "coordinator", "server")),
        trainers=2,
        most_trainers=5,
        scale_every_s=3.0,
        cut_every_s=2.0,
        limit_s=1800.0,
    )
    sockets = tempfile.mkdtemp(prefix="pl")
    monkeypatch.setattr(tempfile, "tempdir", sockets)
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    kills = sum(n for name, n in report.faults.items() if name.startswith("kill "))
    assert kills == 10
    assert report.faults["scaled"] + report.faults["preempted"] >= 5
    assert psutil.Process(forks.pid).children() == []
    assert list(Path(sockets).iterdir()) == [], "sockets are left"
