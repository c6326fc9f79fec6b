"""Roles of a peer are ended together, and their failures are told."""

import os
import sys
import time
from pathlib import Path

import pytest

from benchmarks.harness.processes import wait_modules

MODULE = """
import sys, time, pathlib
role, *words = sys.argv[1:]
pathlib.Path(f"{role}.ran").touch()
print(role, "says", *words, flush=True)
time.sleep(float(words[0]))
sys.exit(int(words[1]))
"""
LONG = "60"


def run(folder: Path, limit_s: float = 30.0, **roles: tuple[str, ...]) -> None:
    (folder / "candidate.py").write_text(MODULE)
    arguments = {role: (role, *words) for role, words in roles.items()}
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    python = Path(sys.executable)
    wait_modules(python, "candidate", arguments, environment, folder, limit_s)


@pytest.mark.slow
def test_servers_are_ended_when_the_first_role_is_over(tmp_path: Path) -> None:
    began_s = time.monotonic()
    run(tmp_path, client=("1", "0"), server=(LONG, "0"))
    assert time.monotonic() - began_s < 30
    assert (tmp_path / "client.ran").exists()
    assert (tmp_path / "server.ran").exists()


@pytest.mark.slow
def test_a_server_may_end_before_the_client(tmp_path: Path) -> None:
    run(tmp_path, client=("1", "0"), server=("0", "0"))


@pytest.mark.slow
@pytest.mark.parametrize("role", ["client", "server"])
def test_a_failure_is_told_at_once_with_its_last_words(tmp_path: Path, role: str) -> None:
    roles = {"client": (LONG, "0"), "server": (LONG, "0"), role: ("0", "3")}
    with pytest.raises(RuntimeError, match=rf"(?s){role} ended with status 3.*{role} says"):
        run(tmp_path, **roles)


@pytest.mark.slow
def test_who_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"client is not over after 0\.5 s"):
        run(tmp_path, limit_s=0.5, client=(LONG, "0"))
