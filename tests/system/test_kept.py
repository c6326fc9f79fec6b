"""What older versions have left: checkpoints are read, and journals of today's format.

A journal of another format is refused with a way on.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.store.journal import FORMAT

KEPT = Path(__file__).parents[1] / "kept"
JOB = KEPT / "kept_job.py"
VERSIONS = sorted(path.parent.name for path in KEPT.glob("*/job.json"))
LIMIT_S = 120


def journal_format(version: str) -> int:
    told = json.loads((KEPT / version / "job.json").read_text())
    return int(told.get("journal_format", 2))  # that of before did not say


OF_TODAY = [version for version in VERSIONS if journal_format(version) == FORMAT]
OLDER = [version for version in VERSIONS if journal_format(version) < FORMAT]

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


def copied(version: str, tmp_path: Path) -> Path:
    """A copy of a kept job folder."""
    return Path(shutil.copytree(KEPT / version, tmp_path / "job"))


@pytest.mark.parametrize("version", OLDER)
def test_a_journal_of_an_older_version_is_refused_with_the_command_that_goes_on(
    tmp_path: Path, version: str
) -> None:
    kept = copied(version, tmp_path)
    refused = resume(kept)
    assert refused.returncode == 2
    told = (
        f"is of format {journal_format(version)}, and this paceline reads format {FORMAT}"
    )
    assert told in refused.stderr
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


@pytest.mark.parametrize("version", OF_TODAY)
def test_a_job_goes_on_by_the_journal_of_a_version_with_the_same_format(
    tmp_path: Path, version: str
) -> None:
    kept = copied(version, tmp_path)
    ended = resume(kept)
    assert ended.returncode == 0, ended.stderr
    assert summary_of(kept)["records"] == 128


@pytest.mark.parametrize(
    "version",
    [VERSIONS[0], *(pytest.param(v, marks=pytest.mark.soak) for v in VERSIONS[1:])],
)
def test_a_job_goes_on_from_the_last_checkpoint_of_an_older_version(
    tmp_path: Path, version: str
) -> None:
    kept = copied(version, tmp_path)
    (kept / "journal.sqlite").rename(kept / "journal.sqlite.old")
    ended = resume(kept)
    assert ended.returncode == 0, ended.stderr
    assert summary_of(kept)["records"] == 128


def test_a_folder_with_the_journal_format_of_today_is_kept() -> None:
    assert OF_TODAY, "make one: docs/releasing.md"
