"""Folders of jobs that run, have ended, or died, without their processes."""

import os
import subprocess
import sys
from pathlib import Path

from paceline.config import JobConfig
from paceline.launch.job import JobDir, RunFile
from tests.watch.summaries import summary


def begun(root: Path, name: str, at: float, trainers: int = 2) -> JobDir:
    """A job that began at a time."""
    job = JobDir(root / name)
    job.claim(JobConfig(run="r", trainers=trainers), "train.py")
    os.utime(job.config, (at, at))
    return job


def running(root: Path, name: str, at: float, pid: int | None = None) -> JobDir:
    """One whose launcher is this process, or another one."""
    job = begun(root, name, at)
    job.write_run(RunFile("r", f"unix:{root}/none.sock", str(root), pid or os.getpid()))
    return job


def ended(
    root: Path, name: str, at: float, ending: str = "trained", reason: str = "why"
) -> JobDir:
    """One that has ended."""
    job = begun(root, name, at)
    job.write_end(None, summary(ending, reason, str(job.path)).as_dict())
    return job


def gone_pid() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    return process.pid
