"""A run outlives its terminal, its readers and a coordinator that is frozen at first."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from paceline.config import JobConfig
from paceline.failpoints import ARM_VARIABLE
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import Deadline, SystemClock
from paceline.watch.progress import open_show

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

SCRIPT = Path(__file__).with_name("terminal_job.py")
LIMIT_S = 120.0
HANGUP, INTERRUPT = 1 << signal.SIGHUP - 1, 1 << signal.SIGINT - 1


def wait_until_there(path: Path, run: subprocess.Popen[bytes]) -> None:
    deadline = Deadline(SystemClock(), LIMIT_S)
    while not path.exists():
        assert run.poll() is None, "the run has ended"
        assert not deadline.is_over(), f"{path} did not come"
        time.sleep(0.05)


def ignored(pid: int) -> int:
    """The signals that a process ignores, as bits."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [mask] = [line.split()[1] for line in lines if line.startswith("SigIgn:")]
    return int(mask, 16)


def shell(folder: Path, redirected: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A run from a script's shell, in the background, where Ctrl-C is ignored."""
    command: Sequence[str] = [sys.executable, "-m", "paceline.cli.main", "run"]
    options = ["--job-dir", "job", *arguments, str(SCRIPT), str(folder)]
    background = f"trap '' HUP INT; exec \"$@\" {redirected}"
    return subprocess.Popen(
        ["bash", "-c", background, "bash", *command, *options],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def test_a_run_outlives_its_terminal_and_its_readers(tmp_path: Path) -> None:
    run = shell(tmp_path, ">/dev/full 2>&-")
    try:
        wait_until_there(tmp_path / "ignored", run)
        processes = [psutil.Process(run.pid)]
        processes += processes[0].children(recursive=True)
        assert len(processes) == 5  # launcher, fork server, coordinator, server, trainer
        for process in processes:
            is_ignored = ignored(process.pid)
            assert is_ignored & HANGUP, process
            assert is_ignored & INTERRUPT, process
        os.killpg(run.pid, signal.SIGHUP)
        os.killpg(run.pid, signal.SIGINT)
        (tmp_path / "go").touch()
        assert run.wait(LIMIT_S) == 0
    finally:
        run.kill()
        run.wait()
    summary = json.loads((tmp_path / "job" / "summary.json").read_text())
    assert (summary["status"], summary["records"]) == ("finished", 8)
    assert {"SIGHUP", "SIGINT"} <= set((tmp_path / "ignored").read_text().split())


def test_a_coordinator_that_is_frozen_at_its_start_is_replaced(
    tmp_path: Path, forks: ForkServer
) -> None:
    (tmp_path / "go").touch()
    config = JobConfig(run="frozen", timeout_s=4.0)
    script = UserScript(str(SCRIPT), (str(tmp_path),))
    with (tmp_path / "said").open("w") as shown:
        result = wait_local_run(
            LocalRun(config, script, JobDir(tmp_path / "job")),
            open_show(shown),
            SystemClock(),
            environment={**os.environ, ARM_VARIABLE: "coordinator.before_reply=stop@1x1"},
            forks=forks,
        )
    assert result.verdict.exit_code == 0, result.verdict
    assert result.summary.records == 8
    assert result.summary.restarts.coordinator >= 1
    assert (
        "killing coordinator: it has done nothing for 4." in (tmp_path / "said").read_text()
    )
