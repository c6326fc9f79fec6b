"""Tables in real processes: all that was pushed is there once, whoever is killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.failpoints import parse
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from tests.system.told import told

SCRIPT = Path(__file__).with_name("table_job.py")
PACES = ["async", "async:push=3", "ssp:2", "sync:reduce=sum"]
POINTS = (
    "trainer.before_submit_rest=kill@6x3;trainer.between_acks=kill@17x3;"
    "trainer.before_tick=kill@9x3"
)


@pytest.mark.system
@pytest.mark.timeout(0)
def test_two_trainers_and_two_servers_push_exactly(
    tmp_path: Path, forks: ForkServer
) -> None:
    arguments = ("--records", "1600")
    plan = ChaosPlan(SCRIPT, "sync", arguments, trainers=2, timeout_s=120.0, limit_s=1500.0)
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.summary["records"] == 2 * 1600


@pytest.mark.system
@pytest.mark.timeout(0)
def test_a_rule_of_a_plugin_is_known_to_servers(tmp_path: Path) -> None:
    script, out = SCRIPT.with_name("rule_job.py"), tmp_path / "verdict.json"
    ran = subprocess.run(
        [
            *(sys.executable, "-c", "from paceline.cli.main import main; main()"),
            *("run", "--trainers", "2", "--servers", "2", "--plugin", "rules"),
            *("--job-dir", str(tmp_path / "job"), str(script), "--out", str(out)),
        ],
        check=False,
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(out.read_text()) == {"exact": True}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", PACES)
def test_pushes_are_exact_when_trainers_die_half_way(
    pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    arguments = ("--sleep-ms", "60", "--table-pace", pace)
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, failpoints=POINTS, cut_every_s=2.0, limit_s=900.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    for name in parse(POINTS):
        assert report.faults.get(name) == 3, f"{name}: a fault was not injected"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_fifty_kills_of_all_roles_lose_nothing(tmp_path: Path, forks: ForkServer) -> None:
    kills = RandomKills(
        seed=5, number=50, within_s=200.0, kinds=("trainer", "coordinator", "server")
    )
    arguments = ("--sleep-ms", "80", "--records", "6400", "--epochs", "14")
    plan = ChaosPlan(
        SCRIPT, "sync", arguments, kills=kills, cut_every_s=2.0, limit_s=1500.0
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert sum(n for name, n in report.faults.items() if name.startswith("kill")) == 50
    assert report.returns, "no return to a cut happened"
