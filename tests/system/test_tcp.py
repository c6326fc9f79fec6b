"""A whole job over TCP: exact, on loopback only, and its secret shows nowhere."""

import json
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from paceline.launch.local import Reach, RunResult, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos

SCRIPT = Path(__file__).parent / "witness_job.py"
COUNTING = Path(__file__).parents[2] / "examples" / "counting" / "train.py"


@pytest.mark.system
@pytest.mark.timeout(0)
def test_a_job_over_tcp_counts_exactly_and_keeps_its_secret(
    tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        "sync:reduce=sum",
        ("--records", "1600", "--ids", "50", "--epochs", "1"),
        trainers=2,
        servers=2,
        timeout_s=120.0,
        limit_s=1500.0,
        transport="tcp",
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    assert report.summary["status"] == "finished"
    assert report.summary["records"] == 1600
    assert report.summary["restarts"] == {"coordinator": 0, "server": 0, "trainer": 0}

    seen = json.loads((tmp_path / "witness.json").read_text())
    secret = seen["secret"]
    assert seen["environment"]["PACELINE_SECRET"] == secret
    assert seen["environment"]["PACELINE_COORDINATOR"].startswith("tcp:127.0.0.1:")
    assert seen["mode"] == 0o600
    assert len(seen["command_lines"]) >= 4
    for line in (*seen["command_lines"], " ".join(seen["arguments"])):
        assert secret not in line
        assert "tcp:" not in line
    listening = seen["listening"]
    for role in ("coordinator", "server-0", "server-1"):
        assert listening[role] == ["127.0.0.1"]
    assert not any(hosts for role, hosts in listening.items() if role.startswith("trainer"))
    # None that a job goes by: only those at which a process says where it stands.
    assert all(name.endswith(".stacks") for name in seen["unix_sockets"])
    addresses = [
        process["address"]
        for process in seen["status"]["processes"]
        if process["role"] == "server"
    ]
    assert len(set(addresses)) == 2
    assert all(address.startswith("tcp:127.0.0.1:") for address in addresses)

    job = tmp_path / "job"
    assert "expected a frame beginning with b'PACE'" in (
        job / "logs" / "coordinator.log"
    ).read_text(encoding="utf-8")
    assert not (job / "secret").exists()
    kept = [path for path in job.rglob("*") if path.is_file()]
    assert len(kept) > 5
    for path in kept:
        data = path.read_bytes()
        assert secret.encode() not in data, path
        assert bytes.fromhex(secret) not in data, path


def own_address() -> str:
    """One at which other machines could reach this one."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            is_ip = address.family == socket.AF_INET
            if is_ip and not address.address.startswith("127."):
                return address.address
    pytest.skip("this machine has no address but loopback")


@pytest.mark.system
@pytest.mark.timeout(0)
def test_a_job_beyond_loopback_speaks_tls_and_counts_exactly(
    tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = own_address()

    def run(*what: Any, **more: Any) -> RunResult:
        return wait_local_run(*what, **{**more, "reach": Reach("tcp", host)})

    monkeypatch.setattr("paceline.testing.chaos.wait_local_run", run)
    plan = ChaosPlan(
        SCRIPT,
        "sync:reduce=sum",
        ("--records", "1600", "--ids", "50", "--epochs", "1"),
        trainers=2,
        servers=2,
        timeout_s=120.0,
        limit_s=1500.0,
        transport="tcp",
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    assert report.summary["restarts"] == {"coordinator": 0, "server": 0, "trainer": 0}
    seen = json.loads((tmp_path / "witness.json").read_text())
    for role in ("coordinator", "server-0", "server-1"):
        assert seen["listening"][role] == [host]
    log = (tmp_path / "job" / "logs" / "coordinator.log").read_text(encoding="utf-8")
    assert "expected TLS, got b'GET '" in log  # who knocked spoke none
    assert "reachable from other machines" not in log


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_counts_over_tcp_are_exact_when_everybody_is_killed(
    tmp_path: Path, forks: ForkServer
) -> None:
    """Coordinators and servers come back at the same ports."""
    arguments = ("--records", "3200", "--ids", "300", "--epochs", "2")
    kills = RandomKills(1, 6, within_s=20.0, kinds=("trainer", "coordinator", "server"))
    plan = ChaosPlan(
        COUNTING,
        "sync:reduce=sum",
        (*arguments, "--task-size", "160", "--sleep-ms", "80"),
        kills=kills,
        cut_every_s=2.0,
        limit_s=600.0,
        transport="tcp",
    )
    report = wait_chaos(plan, tmp_path, forks)
    print(f"{report.faults} {report.counters} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    assert report.is_exact(), report.verdict
    killed = {name.removeprefix("kill ") for name in report.faults if "kill" in name}
    assert {"coordinator", "server"} <= killed
    assert report.returns, "no server was really lost"
