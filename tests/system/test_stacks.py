"""`paceline stacks` says where each role of a running job stands, and disturbs none."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.launch.job import JobDir, is_running

pytestmark = [pytest.mark.slow, pytest.mark.system]

SCRIPT = Path(__file__).with_name("standing_job.py")
LIMIT_S = 150.0
PACELINE = [sys.executable, "-m", "paceline.cli.main"]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[JobDir]:
    """A job of two trainers, one of which stands still, and the other waits for it."""
    path = tmp_path / "job"
    options = ["--trainers", "2", "--timeout", "5m"]  # nobody is taken for dead
    command = [*PACELINE, "run", *options, "--job-dir", str(path), str(SCRIPT)]
    with (tmp_path / "out").open("wb") as out:
        run = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield JobDir(path)
    finally:
        for _ in range(2):
            run.send_signal(signal.SIGINT)
        run.wait(LIMIT_S)


def stacks(*arguments: object) -> str:
    command = [*PACELINE, "stacks", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.stdout + done.stderr


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.5)


def section(told: str, role: str) -> str:
    """What is said of one role."""
    [found] = [part for part in told.split("\n\n") if part.startswith(f"{role}, process")]
    return found


def process_of(told: str, role: str) -> int:
    return int(section(told, role).partition("process ")[2].partition(",")[0])


def test_each_role_tells_where_it_stands_and_goes_on(job: JobDir) -> None:
    until(lambda: is_running(job) and "stands_still (" in stacks(job.path, "trainer"))
    told = ""

    def is_waiting() -> bool:
        nonlocal told
        told = stacks(job.path)
        return told.count("(round) since") == 1

    until(is_waiting)
    standing = "trainer-0" if "stands_still" in section(told, "trainer-0") else "trainer-1"
    waiting = "trainer-1" if standing == "trainer-0" else "trainer-0"
    assert f"waits for {standing} (round)" in section(told, waiting)
    assert "standing_job.py" in section(told, standing)
    assert "run_server" in section(told, "server-0")
    assert "run_coordinator" in section(told, "coordinator")

    pid = process_of(told, standing)
    os.kill(pid, signal.SIGSTOP)
    said = stacks(job.path, standing)
    os.kill(pid, signal.SIGCONT)
    assert "has not answered within 5 s" in said
    # Nobody died of it.
    until(lambda: f"{standing}, process {pid}," in stacks(job.path, standing))

    # Nor of a new coordinator, which hears who is where.
    os.kill(process_of(told, "coordinator"), signal.SIGKILL)
    until(lambda: f"{standing}, process {pid}," in stacks(job.path, standing))
