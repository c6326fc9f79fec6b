"""A supervised process: its group, its log, its end."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.errors import JobFailed
from paceline.launch.environment import LAUNCHER
from paceline.launch.process import Child, describe_exit, end_all, wait_any
from paceline.timing import SystemClock

WAIT_S = 20.0
CHILD = [sys.executable, "-P", "-m", "paceline.launch.child"]


def start(tmp_path: Path, *command: str, role: str = "trainer-0") -> Child:
    return Child(role, command, os.environ, tmp_path / f"{role}.log")


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


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "exit code 1"),
        (-9, "signal SIGKILL"),
        (-64, "signal SIGRTMAX"),
        (-99, "signal 99"),
    ],
)
def test_an_exit_is_described_in_words(status: int, words: str) -> None:
    assert describe_exit(status) == words


LAUNCHER_SCRIPT = """
import os, sys, time
from pathlib import Path
from paceline.launch.process import Child
environment = {**os.environ, "PACELINE_LAUNCHER": str(os.getpid())}
command = [sys.executable, "-P", "-m", "paceline.launch.child", *sys.argv[2:]]
Child("trainer-0", command, environment, Path(sys.argv[1]))
time.sleep(1000)
"""

SLEEPER = """
import os, sys, time
with open(sys.argv[1], "w") as ready:
    ready.write(str(os.getpid()))
time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.system
def test_a_trainer_dies_with_a_killed_launcher(tmp_path: Path) -> None:
    fifo, script = tmp_path / "ready", tmp_path / "sleeper.py"
    os.mkfifo(fifo)
    script.write_text(SLEEPER)
    log = tmp_path / "log"
    command = [sys.executable, "-c", LAUNCHER_SCRIPT, log, script, fifo]
    with subprocess.Popen(command) as launcher:
        pidfd = os.pidfd_open(int(fifo.read_text()))
        try:
            launcher.kill()
            assert wait_pid_gone(pidfd)
        finally:
            os.close(pidfd)


@pytest.mark.slow
@pytest.mark.system
def test_a_trainer_whose_launcher_died_before_it_could_ask_ends_at_once(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('must not run')")
    environment = {**os.environ, LAUNCHER: "1"}

    done = subprocess.run(
        [*CHILD, script], env=environment, capture_output=True, timeout=WAIT_S, check=False
    )

    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


@pytest.mark.slow
@pytest.mark.system
def test_a_script_runs_as_python_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "neighbor.py").write_text("NAME = 'neighbor'")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, neighbor\n"
        "print(__name__, neighbor.NAME, sys.argv, sys.path[0])\n"
        "sys.exit(7)\n"
    )

    done = subprocess.run(
        [*CHILD, script, "--lr", "3"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )

    expected = f"__main__ neighbor {[str(script), '--lr', '3']} {tmp_path}\n"
    assert (done.returncode, done.stdout) == (7, expected)
