"""Commands without a folder: which job is meant, and what is not imported to find it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.ids import COORDINATOR
from paceline.launch.job import operating
from paceline.launch.job.files import write_secret
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.operating import (
    call_running,
    find_job,
    find_running,
    running_job,
)
from paceline.launch.job.wiring import OBSERVER, Wires
from paceline.messages.shared import Done, Message
from paceline.messages.watching import AskStatus, ChangePace
from paceline.timing import SystemClock
from paceline.transport.handshake import Secret
from paceline.transport.service import Peer, Reply
from tests.cli.running import STATUS, exit_code

BLOCKED = ("numpy", "torch", "matplotlib", "paceline.forecast", "paceline.data")


def running(root: Path, name: str, pid: int | None = None) -> JobDir:
    """A job whose launcher is this process, or another one."""
    job = JobDir(root / name)
    job.claim(JobConfig(run="r"), "train.py")
    job.write_run(RunFile("r", f"unix:{root}/c.sock", str(root), pid or os.getpid()))
    return job


def ended(root: Path, name: str, at: float) -> JobDir:
    job = JobDir(root / name)
    job.claim(JobConfig(run="r"), "train.py")
    job.write_end(STATUS, {"status": "finished"})
    os.utime(job.summary, (at, at))
    return job


@pytest.fixture
def gone() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_the_job_that_runs_is_meant(tmp_path: Path, gone: int) -> None:
    ended(tmp_path, "zz-ended", 2e9)
    running(tmp_path, "zz-killed", gone)
    job = running(tmp_path, "runs")
    assert find_running(tmp_path).path == find_job(tmp_path).path == job.path


@pytest.mark.slow
def test_a_job_whose_launcher_was_killed_runs_no_more_whatever_it_has_left(
    tmp_path: Path, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating, "ANSWER_S", 0.2)
    job = running(tmp_path, "killed", gone)  # its folder of sockets is there
    write_secret(job.secret, Secret.fresh())
    run = running_job(job, SystemClock())
    assert run is not None
    with pytest.raises(
        UsageError, match=r"runs no more: .* go on with: paceline run --resume"
    ):
        call_running(run, OBSERVER, AskStatus(), Wires.observe, SystemClock())


def test_of_several_none_is_meant_and_all_are_named(tmp_path: Path) -> None:
    running(tmp_path, "one")
    running(tmp_path, "two")
    for find in (find_running, find_job):
        with pytest.raises(UsageError, match=r"2 jobs run: .*one, .*two"):
            find(tmp_path)


def test_where_none_runs_the_last_that_ended_can_be_looked_at(tmp_path: Path) -> None:
    ended(tmp_path, "zz-older", 1e9)
    newer = ended(tmp_path, "newer", 2e9)
    assert find_job(tmp_path).path == newer.path
    with pytest.raises(UsageError, match="no job runs"):
        find_running(tmp_path)


def test_a_job_that_was_killed_after_others_had_ended_is_the_last(
    tmp_path: Path, gone: int
) -> None:
    ended(tmp_path, "older", 1e9)
    killed = running(tmp_path, "killed", gone)
    assert find_job(tmp_path).path == killed.path

    newer = ended(tmp_path, "newer", 3e9)
    assert find_job(tmp_path).path == newer.path


def test_where_there_is_no_job_a_folder_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no job runs or has ended in a folder of"):
        find_job(tmp_path)


@pytest.mark.parametrize(
    "words", [("status",), ("draw",), ("pace", "ssp:5"), ("scale", "3")]
)
def test_several_jobs_are_wrong_usage_of_every_command(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    running(tmp_path / "runs", "one")
    running(tmp_path / "runs", "two")
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, *words) == 2
    assert "name the folder of one of runs/one, runs/two" in capsys.readouterr().err


class StandInCoordinator:
    def received(self, peer: Peer, message: Message, buffers: object, reply: Reply) -> None:
        del peer, buffers
        reply(Done() if isinstance(message, ChangePace) else STATUS)

    def disconnected(self, peer: Peer) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status", "--json"), '"state": "running"'),
        (("pace", "ssp:5"), "all parts at ssp:5"),
        (("pace", "runs/mine", "ssp:5", "--part", "0"), "part 0 at ssp:5"),
    ],
)
def test_a_job_is_asked_without_numpy_and_the_simulator(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    running(tmp_path, "runs/mine")
    program = (
        f"import sys; sys.modules |= dict.fromkeys({BLOCKED})\n"
        "from paceline.cli.main import main; main()"
    )
    wires = Wires("r", COORDINATOR, SystemClock())
    address = f"unix:{tmp_path}/c.sock"
    with wires.listen_as_coordinator(address, StandInCoordinator()):
        found = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (found.returncode, found.stderr) == (0, "")
    assert said in found.stdout


@pytest.mark.slow
def test_there_is_nothing_to_draw_without_numpy(tmp_path: Path) -> None:
    program = (
        f"import sys; sys.modules |= dict.fromkeys({BLOCKED})\n"
        "from paceline.cli.main import main; main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, "draw"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 2
    assert "no job runs or has ended" in found.stderr
