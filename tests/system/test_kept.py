"""What older versions have left: checkpoints are read, journals refused with a way on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / "kept"
JOB = KEPT / "kept_job.py"
VERSIONS = sorted(path.parent.name for path in KEPT.glob("*/job.json"))
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


def summary_of(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a kept job folder."""
    return Path(shutil.copytree(KEPT / request.param, tmp_path / "job"))


def test_a_journal_of_an_older_version_is_refused_with_the_command_that_goes_on(
    kept: Path,
) -> None:
    refused = resume(kept)
    assert refused.returncode == 2
    assert "is of format 2, and this paceline reads format 3" in refused.stderr
    command = refused.stderr.strip().splitlines()[-1]
    bin_dir = Path(sys.executable).parent
    ended = subprocess.run(
        ["sh", "-c", f"PATH={bin_dir}:$PATH; {command}"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert summary_of(kept)["records"] == 128


def test_a_job_goes_on_from_the_last_checkpoint_of_an_older_version(kept: Path) -> None:
    (kept / "journal.sqlite").rename(kept / "journal.sqlite.old")
    ended = resume(kept)
    assert ended.returncode == 0, ended.stderr
    assert summary_of(kept)["records"] == 128
