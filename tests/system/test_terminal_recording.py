"""What somebody sees who trains in a terminal, from a start under load to the end.

``pytest -s -m soak tests/system/test_terminal_recording.py`` prints it, with seconds. A
wait is real: a process is frozen, or takes its time, for half a minute. Minutes: only
`make soak` runs it.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from paceline.cli.status import running_view
from paceline.launch.job import JobDir
from paceline.timing import SystemClock
from tests.system.recording import Recording

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the script of a user."""
    for name, there in (("recorded_job", "train"), ("recorded_rule", "careful")):
        shutil.copy(Path(__file__).with_name(f"{name}.py"), tmp_path / f"{there}.py")
    return tmp_path


@contextlib.contextmanager
def recorded(command: Sequence[str], here: Path) -> Iterator[Recording]:
    """A command on a terminal, whose recording is printed, whatever comes."""
    with Recording(command, here, PATH=PATH, OMP_NUM_THREADS="1") as recording:
        try:
            yield recording
        finally:
            print(f"\n{recording.text()}")  # noqa: T201  (this is what is asked for)


@contextlib.contextmanager
def load() -> Iterator[None]:
    """All cores have other work, too."""
    endless = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(endless) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def wait_trained(recording: Recording, more_s: float = 0.0) -> None:
    """Until batches are trained, and for some seconds more."""
    recording.wait_shown(r"[1-9]\S* of 12,800 records .* records/s")
    until_s = recording.seconds() + more_s
    recording.wait(lambda: recording.seconds() >= until_s, "time")


def shown(command: Sequence[str], here: Path) -> tuple[int, str]:
    """Of a command that ends by itself: its exit code, and what it says."""
    with recorded(command, here) as recording:
        code = recording.wait_ended()
        return code, "\n".join(recording.lines())


def go_on(recording: Recording, here: Path) -> None:
    """Do what the last line says, to the end."""
    _, command = recording.lines()[-1].split("go on with: ")
    (here / "hurry").touch()
    code, text = shown(shlex.split(command), here)
    assert code == 0
    assert re.search(r"goes on from checkpoint \d+ of .*, [\d,]+ records", text)
    assert re.search(r"^records +12,800", text, re.MULTILINE)


def pid_of(job: JobDir, role: str) -> int:
    """Of a process of a running job, by its role id."""
    processes = running_view(job, SystemClock())["processes"]
    assert isinstance(processes, list)
    return next(int(one["pid"]) for one in processes if one["id"] == role)


def test_a_run_of_processes_tells_a_wait_a_death_and_how_to_go_on(here: Path) -> None:
    job = JobDir(here / "runs" / "mine")
    options = "--trainers 2 --timeout 60s --job-dir runs/mine train.py"
    with recorded(["paceline", "run", *options.split()], here) as run:
        with load():
            wait_trained(run)
        assert (
            run.lines()[0] == "paceline: job folder runs/mine, 2 trainers, 1 server, sync"
        )
        frozen = pid_of(job, "trainer-1")
        os.kill(frozen, signal.SIGSTOP)
        run.wait_shown(r"waits for trainer-1 \(round, 3\d s\)")
        _, text = shown(["paceline", "status"], here)
        assert "trainer-1 is waited for (round) by trainer-0" in text
        os.kill(frozen, signal.SIGCONT)
        wait_trained(run, more_s=6.0)
        os.kill(pid_of(job, "trainer-1"), signal.SIGKILL)
        run.wait_shown("trainer-1 ended with signal SIGKILL")
        wait_trained(run, more_s=6.0)
        run.press_ctrl_c()
        assert run.wait_ended() == 75
        told = "\n".join(run.lines())
        assert re.search(r"interrupted: trainers leave .*once more, and\s+all ends", told)
        saved, on = run.lines()[-2:]
        assert saved.startswith("paceline: interrupted; saved as cut ")
        assert on.startswith("paceline: go on with: paceline run --resume ")
        assert told.index("status      stopped") < told.index(
            "paceline: interrupted; saved"
        )
    go_on(run, here)


def test_a_script_of_its_own_tells_a_wait_and_how_to_go_on(here: Path) -> None:
    with recorded(["python", "train.py", "with-table"], here) as run:
        with load():
            wait_trained(run)
        first = run.lines()[0]
        assert re.fullmatch(
            r"paceline: job folder runs/\S+, 1 trainer, 1 server, sync", first
        )
        (here / "slow").touch()
        run.wait_shown(r"trainer-0 waits for server-0 \(servers\), 10 s")
        run.wait_shown(r"trainer-0 goes on after 3\d s: it has waited for server-0")
        wait_trained(run, more_s=6.0)
        run.press_ctrl_c()
        assert run.wait_ended() == 75
        saved, on = run.lines()[-2:]
        assert saved.startswith("paceline: interrupted; saved as cut ")
        assert on.startswith("paceline: go on with: paceline run --resume ")
    go_on(run, here)


def test_the_death_of_a_script_of_its_own_leaves_a_command_that_goes_on(here: Path) -> None:
    with recorded(["python", "train.py"], here) as run:
        wait_trained(run, more_s=6.0)
        os.kill(run.pid, signal.SIGKILL)
        assert run.wait_ended() == -signal.SIGKILL
    [folder] = (here / "runs").iterdir()
    with recorded(["paceline", "status", f"runs/{folder.name}"], here) as status:
        assert status.wait_ended() == 2
    go_on(status, here)
