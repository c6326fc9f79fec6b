"""One trainer and one server: in one process or in four, the same bits."""

import hashlib
import os
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import wait_any
from paceline.timing import SystemClock
from paceline.watch.progress import open_show

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

SCRIPT = Path(__file__).with_name("small_job.py")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
WAIT_S = 600.0


def digests(checkpoints: Path) -> dict[str, str]:
    """{file of the last cut: its SHA-256}."""
    last = max(path.parent for path in checkpoints.rglob("*.safetensors"))
    files = last.glob("*.safetensors")
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def wait_embedded(forks: ForkServer, folder: Path) -> JobDir:
    environment = {**ONE_THREAD, "PACELINE_JOB_DIR": str(folder)}
    log = folder.with_suffix(".log")
    child = forks.start("trainer-0", Command((str(SCRIPT),), environment), log)
    assert child is not None
    assert wait_any([child], WAIT_S) == [child]
    assert child.reap() == 0, child.last_lines()
    return JobDir(folder)


def wait_processes(forks: ForkServer, folder: Path, servers: int = 1) -> JobDir:
    config = JobConfig(run=fresh_run_id(), trainers=1, servers=servers, timeout_s=120.0)
    job = JobDir(folder)
    with folder.with_suffix(".out").open("w") as out:
        wait_local_run(
            LocalRun(config, UserScript(str(SCRIPT), ()), job),
            open_show(out),
            SystemClock(),
            environment=ONE_THREAD,
            forks=forks,
        )
    return job


def test_a_job_of_processes_and_one_process_train_the_same_bits(
    forks: ForkServer, tmp_path: Path
) -> None:
    in_processes = digests(wait_processes(forks, tmp_path / "processes").checkpoints)
    embedded = digests(wait_embedded(forks, tmp_path / "embedded").checkpoints)

    assert in_processes
    assert embedded == in_processes
