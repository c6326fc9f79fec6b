"""A job in one process needs nothing that only Linux has; several processes are refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"
SCRIPT = re.compile(r"^```python\n(import torch\n.*?)^```", re.MULTILINE | re.DOTALL)
SYSTEMS = ["Windows", pytest.param("Darwin", marks=pytest.mark.around)]  # it has more
WAIT_S = 300.0
RECORDS = 3 * 4_000


def ran(
    system: str, folder: Path, *program: str, **more: str
) -> "subprocess.CompletedProcess[str]":
    """A program in a folder, on a system that is not quite there."""
    paths = [str(ROOT / "src"), str(ROOT)]
    return subprocess.run(
        [sys.executable, "-m", "tests.system.without_linux", system, *program],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            **more,
        },
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the script of the quickstart, and less data."""
    found = SCRIPT.search(PAGE.read_text(encoding="utf-8"))
    assert found
    (tmp_path / "train.py").write_text(found[1].replace("200_000", "4_000"))
    return tmp_path


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_quickstart_trains_and_checkpoints(system: str, folder: Path) -> None:
    trained = ran(system, folder, "train.py", PACELINE_JOB_DIR="job")
    assert trained.returncode == 0, trained.stderr
    assert "paceline status cannot look at this job while it runs" in trained.stderr
    summary = json.loads((folder / "job" / "summary.json").read_text())
    assert (summary["status"], summary["records"]) == ("finished", RECORDS)
    listed = ran(system, folder, "paceline", "checkpoint", "verify", "job")
    assert listed.returncode == 0, listed.stderr
    assert "whole" in listed.stdout
    for command in (("status", "job"), ("trace", "job", "-o", "trace.json")):
        looked = ran(system, folder, "paceline", *command)
        assert looked.returncode == 0, looked.stderr


RESUMED = """
from pathlib import Path
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job import JobDir

folder = Path("job")
job = EmbeddedJob(JobDir(folder).read_config(), folder, is_resumed=True)
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_was_interrupted_goes_on_where_it_was(system: str, folder: Path) -> None:
    script = (folder / "train.py").read_text()
    fails = (
        "    session.log(loss=loss.item())\n    if session.records > 6_000: raise OSError\n"
    )
    (folder / "fails.py").write_text(
        script.replace("    session.log(loss=loss.item())\n", fails)
    )
    failed = ran(system, folder, "fails.py", PACELINE_JOB_DIR="job")
    assert failed.returncode == 1
    assert "saved as cut" in failed.stderr
    goes_on = script.replace("paceline.connect()", 'job.session("trainer-0")')
    text = (
        f"{RESUMED}{goes_on}\nfound = job.close()\nassert found['records'] == {RECORDS}\n"
    )
    (folder / "resumed.py").write_text(text)
    resumed = ran(system, folder, "resumed.py")
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_folder_is_one_jobs(system: str, folder: Path) -> None:
    """Its lock holds, and falls with its process."""
    script = "import paceline; paceline.connect(); print('in'); input()"
    (folder / "wait.py").write_text(script)
    command = [sys.executable, "-m", "tests.system.without_linux", system, "wait.py"]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "PACELINE_JOB_DIR": "job"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        late = ran(system, folder, "train.py", PACELINE_JOB_DIR="job")
        holder.communicate("\n", timeout=WAIT_S)
    assert late.returncode == 1
    assert "its job is running" in late.stderr


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "command", [("run", "train.py"), ("host", "--join", "10.0.0.1:7070"), ("doctor",)]
)
def test_several_processes_are_refused_by_name(
    system: str, command: tuple[str, ...], folder: Path
) -> None:
    refused = ran(system, folder, "paceline", *command)
    assert refused.returncode == 2, refused.stderr
    said = f"paceline: paceline {command[0]} needs Linux: {system} has no "
    assert refused.stderr.startswith(said), refused.stderr
    assert "epoll" in refused.stderr
    assert refused.stderr.endswith("; `python train.py` runs here in one process\n")
    assert not (folder / "runs").exists()
