"""Which folders are jobs, and what they tell, damaged ones, too."""

import os
import shutil
from pathlib import Path

import pytest

from paceline.dashboard.listing.folders import (
    MOST_BYTES,
    MOST_LISTED,
    find_jobs,
    marks_of,
    read_job,
)
from paceline.events import MOST_BYTES as MOST_EVENTS
from paceline.events import older
from paceline.launch.job import JobDir
from tests.dashboard.folders import begun, ended, running

NOW_T = 2e9


def note_of(job: JobDir) -> str:
    return read_job(job, marks_of(job), NOW_T).row.note


def test_of_very_many_the_newest_are_found_and_all_that_run(tmp_path: Path) -> None:
    for n in range(MOST_LISTED + 2):
        begun(tmp_path, f"job-{n}", 100.0 + n)
    running(tmp_path, "runs", 1.0)

    names, left_out = find_jobs(tmp_path)

    assert len(names) == MOST_LISTED
    assert names[:2] == ["runs", f"job-{MOST_LISTED + 1}"]
    assert left_out == 3


def test_a_damaged_folder_says_so(tmp_path: Path) -> None:
    whole = ended(tmp_path, "whole", 10.0)
    torn, strange = (begun(tmp_path, name, 20.0) for name in ("torn", "strange"))
    torn.summary.write_text("{")
    strange.summary.write_text('{"status": "finished"}')

    assert read_job(whole, marks_of(whole), NOW_T).row.state == "finished"
    assert "damaged" in note_of(torn)
    assert "missing required field" in note_of(strange)


@pytest.mark.parametrize("size", [1, MOST_BYTES + 1, MOST_EVENTS])
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_job_that_died_has_lasted_to_its_last_event_however_many_there_are(
    tmp_path: Path, size: int, *, is_moved: bool
) -> None:
    job = begun(tmp_path, "died", 100.0)
    events = older(job.events) if is_moved else job.events
    events.touch()
    os.truncate(events, size)
    os.utime(events, (7300.0, 7300.0))

    row = read_job(job, marks_of(job), NOW_T).row

    assert (row.kind, row.lasted_s) == ("died", 7200.0)


@pytest.mark.timeout(20)
def test_only_plain_folders_with_plain_files_are_jobs(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ended(elsewhere, "secret", 10.0)
    (tmp_path / "link").symlink_to(elsewhere / "secret")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "job.json").symlink_to(elsewhere / "secret" / "job.json")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    shutil.copytree(elsewhere / "secret", os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))

    assert find_jobs(tmp_path).names == []
