"""What people are told of a job that is not there, does not answer, or runs again."""

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.dashboard import Observer
from paceline.errors import UsageError
from paceline.events import EventLog
from paceline.launch.job import JobDir
from paceline.timing import SystemClock


def head_of(observer: Observer) -> dict[str, Any]:
    observer.look()
    told: dict[str, Any] = json.loads(observer.beat.now)["head"]
    return told


def test_a_folder_without_a_job_is_refused(tmp_path: Path) -> None:
    from paceline.cli.dashboard import dashboard, report  # noqa: PLC0415

    for act in (dashboard, report):
        with pytest.raises(UsageError, match="expected a job folder"):
            act(tmp_path / "nonexist")


def test_a_job_that_runs_no_more_says_so(tmp_path: Path) -> None:
    EventLog(tmp_path / "events.jsonl").write("RunBegun", {})
    observer = Observer(JobDir(tmp_path), "job", SystemClock())

    with pytest.raises(UsageError, match="holds no job that runs"):
        observer.ask()

    assert "holds no job that runs" in head_of(observer)["trouble"]
    observer.close()
