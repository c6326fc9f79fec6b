"""A supervised process: its group, its log, its end."""

import os
import select
import signal
from pathlib import Path

import pytest

from paceline.errors import JobFailed
from paceline.launch.processes.process import Child, end_all, spawn, wait_any
from paceline.timing import SystemClock

WAIT_S = 20.0


def start(tmp_path: Path, *command: str, role: str = "trainer-0") -> Child:
    return spawn(role, command, os.environ, tmp_path / f"{role}.log")


def wait_end(child: Child) -> int:
    assert wait_any([child], WAIT_S) == [child]
    return child.reap()


def wait_pid_gone(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(WAIT_S * 1000))


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)]
)
def test_the_exit_status_is_known(tmp_path: Path, script: str, status: int) -> None:
    child = start(tmp_path, "sh", "-c", script)

    assert wait_end(child) == status
    assert child.reap() == status


def test_output_and_errors_are_appended_to_the_log_and_the_last_lines_are_its_own(
    tmp_path: Path,
) -> None:
    wait_end(start(tmp_path, "sh", "-c", "echo first"))
    child = start(tmp_path, "sh", "-c", "echo second; echo third >&2")
    wait_end(child)

    assert (tmp_path / "trainer-0.log").read_text() == "first\nsecond\nthird\n"
    assert child.last_lines() == ["second", "third"]
    assert child.last_lines(1) == ["third"]


def test_a_log_that_is_gone_has_no_last_lines(tmp_path: Path) -> None:
    child = start(tmp_path, "sh", "-c", "echo first")
    wait_end(child)
    (tmp_path / "trainer-0.log").unlink()

    assert child.last_lines() == []


def test_what_is_left_of_a_group_dies_with_its_leader(tmp_path: Path) -> None:
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    child = start(tmp_path, "sh", "-c", f"sleep 1000 & echo $! > {fifo}; exit 1")
    pidfd = os.pidfd_open(int(fifo.read_text()))
    try:
        assert wait_end(child) == 1
        assert wait_pid_gone(pidfd)
    finally:
        os.close(pidfd)


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    stubborn = start(
        tmp_path, "sh", "-c", f"trap '' TERM; echo > {fifo}; while :; do sleep 1; done"
    )
    meek = start(tmp_path, "sleep", "1000", role="trainer-1")
    fifo.read_text()

    ended = end_all([stubborn, meek], 0.05, SystemClock())

    assert ended == {"trainer-0": -signal.SIGKILL, "trainer-1": -signal.SIGTERM}


def test_a_hurry_ends_the_grace(tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    script = f"trap '' TERM; echo > {fifo}; while :; do sleep 1; done"
    child = start(tmp_path, "sh", "-c", script)
    fifo.read_text()

    ended = end_all([child], 1000.0, SystemClock(), hurry=lambda: True)

    assert ended == {"trainer-0": -signal.SIGKILL}


def test_a_stopped_process_can_be_ended(tmp_path: Path) -> None:
    child = start(tmp_path, "sleep", "1000")
    child.signal(signal.SIGSTOP)

    (status,) = end_all([child], 0.05, SystemClock()).values()

    assert status in {-signal.SIGTERM, -signal.SIGKILL}


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match=r"trainer-0 could not be started.*no-such-command"):
        start(tmp_path, "no-such-command")


def test_waiting_for_nobody_ends_in_time() -> None:
    assert wait_any([], 0.01) == []
