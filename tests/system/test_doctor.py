"""Machines that are examined before a job: what is wrong between them is said by name."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import LARGE_DO_NOT_PASS
from paceline.testing.machines import Machines
from tests.system.hosts import PACELINE, tcp
from tests.system.secure_shell import as_here, stand_in

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
LIMIT_S = 120.0


def environment(folder: Path, **more: str) -> dict[str, str]:
    """With a secret that all machines have."""
    secret = folder / "secret"
    secret.write_text("ab" * 32)
    secret.chmod(0o600)
    return {**os.environ, "PACELINE_SECRET_FILE": str(secret), **more}


def examined(
    machines: Machines, folder: Path, *options: str
) -> tuple[int, dict[str, Any], list[str]]:
    """All machines of a rig, by their names m0, m1...; the exit code, and what was said."""
    command = [*PACELINE, "doctor", "--json", "--listen", tcp(machines[0])]
    all_of_them = ["--await-hosts", str(len(machines)), *options]
    doctor = machines[0].popen(
        [*command, *all_of_them],
        folder / "doctor.txt",
        env=environment(folder, PACELINE_HOST="m0"),
        cwd=folder,
    )
    hosts = []
    for index in range(1, len(machines)):
        (there := folder / f"m{index}").mkdir()
        words = ["host", "--join", tcp(machines[0]), "--name", there.name]
        log = folder / f"{there.name}.txt"
        env = environment(folder)
        hosts.append(machines[index].popen([*PACELINE, *words], log, env=env, cwd=there))
    code = doctor.wait(LIMIT_S)
    said = (folder / "doctor.txt").read_text().splitlines()
    assert said[-1].startswith("{"), said
    assert [host.wait(20.0) for host in hosts] == [0] * len(hosts)
    return code, json.loads(said[-1]), said[:-1]


def wrong(report: dict[str, Any]) -> list[str]:
    """What is wrong, sorted."""
    return sorted(f["text"] for f in report["findings"] if f["is_wrong"])


def ways(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{from-to: what was found}."""
    return {f"{way['from']}-{way['to']}": way for way in report["ways"]}


@pytest.mark.usefixtures("needs_machines")
def test_three_machines_that_are_well_have_six_ways(tmp_path: Path) -> None:
    with Machines(3) as machines:
        code, report, said = examined(
            machines, tmp_path, "--checkpoints", str(tmp_path / "cuts")
        )

    assert (code, wrong(report)) == (0, [])
    assert {machine["name"] for machine in report["machines"]} == {"m0", "m1", "m2"}
    assert len(report["ways"]) == 6
    for way in report["ways"]:
        assert 0 < way["round_trip_s"] < 1.0
        assert way["bytes_per_s"] > 1e6
    assert any("ways between machines" in line for line in said)
    assert list((tmp_path / "cuts").iterdir()) == []


@pytest.mark.usefixtures("needs_machines")
@pytest.mark.parametrize("ipv6_only", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_path_that_swallows_large_frames_is_named_with_both_machines(
    tmp_path: Path, *, ipv6_only: bool
) -> None:
    with Machines(2, ipv6_only=ipv6_only) as machines:
        machines[0].narrow(1300)
        code, report, _ = examined(machines, tmp_path)

    assert code == 1
    [text] = wrong(report)
    assert text.startswith(f"from m1 to m0 {LARGE_DO_NOT_PASS} (")
    assert ways(report)["m0-m1"]["large_error"] == ""


@pytest.mark.usefixtures("needs_machines")
def test_what_two_machines_cannot_do_is_said_of_these_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    with Machines(3) as machines:
        machines[1].cut_one_way(machines[2])  # nothing that m1 sends there arrives
        machines[2].slow(20e6)
        code, report, _ = examined(machines, tmp_path, "train.py")

    assert code == 1
    told = wrong(report)
    assert any(text.startswith("m1 does not reach m2: tcp:") for text in told)
    assert any(text.startswith("m2 does not reach m1: tcp:") for text in told)
    assert sum("there is no script 'train.py'" in text for text in told) == 2
    assert any("less than a quarter as fast" in f["text"] for f in report["findings"])


def test_machines_come_by_ssh_and_one_that_does_not_is_said(tmp_path: Path) -> None:
    def doctor(hosts: str, *more: str) -> subprocess.CompletedProcess[str]:
        words: Sequence[str] = ("--hosts", hosts, "--ssh", stand_in(tmp_path), *more)
        return subprocess.run(
            [*PACELINE, "doctor", "--json", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    well = doctor("a,b", "--remote", as_here(tmp_path))
    assert well.returncode == 0, well.stderr
    assert len(json.loads(well.stdout)["ways"]) == 6

    away = doctor("a", "--remote", "echo no such place; false")
    assert away.returncode == 1
    told = wrong(json.loads(away.stdout))
    assert any("ssh to a has ended with exit code 1" in text for text in told)
    assert any("1 of 2 machines have come" in text for text in told)
