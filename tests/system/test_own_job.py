"""`python train.py`: what it says, and how it ends and goes on, in processes of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.harness.processes import wait_started
from paceline.cli.status import running_view
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import Child, wait_any
from paceline.store.blobs import BlobStore
from paceline.store.cuts import read_manifest
from paceline.timing import Deadline, SystemClock
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending
from tests.system import own_job

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

SCRIPT = Path(own_job.__file__)
RECORDS = own_job.RECORDS
WAIT_S = 120.0
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(forks: ForkServer, folder: Path, way: str) -> Child:
    """Run the script by itself."""
    environment = {**ENVIRONMENT, "PACELINE_JOB_DIR": str(folder / "job")}
    command = Command((str(SCRIPT), way, str(folder / "go")), environment)
    return wait_started(forks, "trainer-0", command, folder / "log")


def wait_said(child: Child, text: str) -> None:
    deadline = Deadline(SystemClock(), WAIT_S)
    while not any(text in line for line in child.last_lines()):
        assert not deadline.is_over(), child.last_lines()
        time.sleep(0.01)


def wait_code(child: Child) -> int:
    assert wait_any([child], WAIT_S) == [child], child.last_lines()
    return child.reap()


def go_on(forks: ForkServer, folder: Path) -> str:
    """Resume it as the last line says; the script's own last line."""
    job = JobDir(folder / "job")
    config = structs.replace(job.read_config(), run=fresh_run_id())
    with (folder / "shown").open("w") as shown:
        result = wait_local_run(
            LocalRun(config, UserScript(str(SCRIPT), ("none",)), job, is_resumed=True),
            open_show(shown),
            SystemClock(),
            environment=ENVIRONMENT,
            forks=forks,
        )
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == RECORDS
    told = (folder / "shown").read_text()
    assert re.search(
        r"^goes on from checkpoint \d+ of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, \d+ "
        r"records, at sync$",
        told,
        re.MULTILINE,
    )
    return job.log("trainer-0").read_text().splitlines()[-1]


def test_what_it_says_leaves_standard_output_to_the_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "none"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert done.stdout == f"value {RECORDS}\n"
    [folder] = (tmp_path / "runs").iterdir()
    first, *rest = done.stderr.splitlines()
    assert first == f"paceline: job folder runs/{folder.name}, 1 trainer, 1 server, sync"
    assert [word for line in rest for word in line.split()][:2] == ["status", "finished"]


def test_ctrl_c_saves_and_the_resumed_job_comes_to_the_same(
    forks: ForkServer, tmp_path: Path
) -> None:
    child = start(forks, tmp_path, "wait")
    wait_said(child, "at batch 5")
    job = JobDir(tmp_path / "job")
    assert running_view(job, SystemClock())["state"] == "running"
    run = job.read_run()
    assert run is not None
    os.kill(child.pid, signal.SIGINT)
    wait_said(child, "once more, and all ends at once")
    (tmp_path / "go").touch()
    assert wait_code(child) == 75
    *_, saved, on = child.last_lines()
    assert saved == "paceline: interrupted; saved as cut 1"
    assert on.startswith(
        f"paceline: go on with: paceline run --resume --job-dir {job.path}"
    )
    assert not Path(run.sockets).exists()
    assert go_on(forks, tmp_path) == f"value {RECORDS}"


def test_a_run_tells_the_checkpoint_that_it_goes_on_from_and_what_it_passed_over(
    forks: ForkServer, tmp_path: Path
) -> None:
    child = start(forks, tmp_path, "raise")
    assert wait_code(child) == 1
    older, newest = sorted(JobDir(tmp_path / "job").path.glob("checkpoints/cut-*"))
    manifest = newest / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    assert go_on(forks, tmp_path) == f"value {RECORDS}"
    told = (tmp_path / "shown").read_text().splitlines()
    [place] = [n for n, line in enumerate(told) if line.startswith("goes on from")]
    cut = read_manifest(BlobStore(str(older.parent)), older.name)
    taken = datetime.fromtimestamp(cut.created, tz=UTC).astimezone()
    assert told[place] == (
        f"goes on from checkpoint {cut.cut} of {taken:%Y-%m-%d %H:%M:%S}, "
        f"{cut.records} records, at sync"
    )
    assert told[place + 1].startswith("passed over: ")
    assert newest.name in told[place + 1]


def test_ctrl_c_twice_ends_it_at_once_even_in_native_code(
    forks: ForkServer, tmp_path: Path
) -> None:
    child = start(forks, tmp_path, "native")
    wait_said(child, "at batch 5")
    os.kill(child.pid, signal.SIGINT)
    wait_said(child, "once more, and all ends at once")
    time.sleep(0.2)  # two that come together are one
    os.kill(child.pid, signal.SIGINT)
    assert wait_code(child) == 75
    assert "paceline: interrupted" in child.last_lines()
    assert go_on(forks, tmp_path) == f"value {RECORDS}"


def test_an_exception_is_shown_then_what_was_saved_and_how_to_go_on(
    forks: ForkServer, tmp_path: Path
) -> None:
    child = start(forks, tmp_path, "raise")
    assert wait_code(child) == 1
    lines = child.last_lines(40)
    *_, saved, on = lines
    assert lines.index("ValueError: a bug") < lines.index(saved)
    assert saved == "paceline: failed: ValueError: a bug; saved as cut 1"
    assert on.startswith("paceline: go on with: paceline run --resume --job-dir")
    assert go_on(forks, tmp_path) == f"value {RECORDS}"


def test_what_a_kill_leaves_behind_goes_when_the_job_goes_on(
    forks: ForkServer, tmp_path: Path
) -> None:
    child = start(forks, tmp_path, "wait")
    wait_said(child, "at batch 5")
    run = JobDir(tmp_path / "job").read_run()
    assert run is not None
    os.kill(child.pid, signal.SIGKILL)
    assert wait_code(child) == -signal.SIGKILL
    assert Path(run.sockets).exists()
    assert go_on(forks, tmp_path) == f"value {RECORDS}"
    assert not Path(run.sockets).exists()
