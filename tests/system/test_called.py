"""`paceline.run` in real processes: from a thread, and ended by Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.launch.job.folder import JobDir
from paceline.timing import Deadline, SystemClock
from tests.system import called_job, function_job

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

WAIT_S = 300.0


def start(
    way: str, folder: Path, script: str = called_job.__file__
) -> subprocess.Popen[str]:
    temporary = folder / "temporary"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, script, way],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_written(path: Path, text: str) -> None:
    deadline = Deadline(SystemClock(), WAIT_S)
    while not (path.exists() and text in path.read_text()):
        assert not deadline.is_over(), path.parent
        time.sleep(0.05)


def test_a_thread_may_start_a_job_and_has_its_summary(tmp_path: Path) -> None:
    ran = start("in_thread", tmp_path)
    output, errors = ran.communicate(timeout=WAIT_S)
    assert (ran.returncode, output) == (0, "1920 trained\n"), errors
    assert "2 trainers, 2 servers, sync" in errors


def test_an_interrupt_saves_and_ends_the_job_and_the_script(tmp_path: Path) -> None:
    ran = start("endless", tmp_path)
    job = JobDir(tmp_path / "job")
    wait_written(job.log("trainer-0"), "a batch")
    ran.send_signal(signal.SIGINT)

    output, errors = ran.communicate(timeout=WAIT_S)

    assert ran.returncode == 75, errors
    assert output == "ended by Interrupted\n"
    assert f"go on with: paceline run --resume --job-dir {job.path} endless.py" in errors
    assert list((job.path / "checkpoints").glob("cut-*")), "nothing was saved"
    assert job.read_run() is None


def test_trainers_call_a_function_of_a_notebook_and_nothing_of_it_is_left(
    tmp_path: Path,
) -> None:
    notebook = tmp_path / "elsewhere" / "notebook.py"
    notebook.parent.mkdir()
    shutil.copy(function_job.__file__, notebook)
    (notebook.parent / "beside.py").write_text("RATE = 0.01\n")

    output, errors = start("", tmp_path, str(notebook)).communicate(timeout=WAIT_S)

    assert output == f"{2 * function_job.RECORDS} trained\n", errors
    assert "trainer-0 | called __main__ with 2\n" in errors
    job = JobDir(tmp_path / "job")
    for trainer in ("trainer-0", "trainer-1"):
        assert job.log(trainer).read_text() == "called __main__ with 2\n"
    assert job.read_script() == "train(...)"
    assert not list(tmp_path.rglob("function")), "it is removed"
