"""What older versions have left: checkpoints are read, journals refused with a way on."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / "kept"
JOB = KEPT / "kept_job.py"
VERSIONS = sorted(path.name for path in KEPT.iterdir() if path.is_dir())
LIMIT_S = 120

pytestmark = pytest.mark.system


def resume(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "paceline.cli.main", "run", "--resume"]
    return subprocess.run(
        [*command, f"--job-dir={folder}", "--json", str(JOB)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(params=[v for v in VERSIONS if v != "__pycache__"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a kept job folder."""
    return Path(shutil.copytree(KEPT / request.param, tmp_path / "job"))


def test_a_job_goes_on_from_the_last_checkpoint_of_an_older_version(kept: Path) -> None:
    (kept / "journal.sqlite").rename(kept / "journal.sqlite.old")
    ended = resume(kept)
    assert ended.returncode == 0, ended.stderr
    assert '"records":128' in ended.stdout.replace(" ", "")
