"""What people are told of a job that is not there, does not answer, or runs again."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from paceline.dashboard import Observer
from paceline.dashboard.picture import Picture
from paceline.errors import UsageError
from paceline.events import EventLog
from paceline.launch.job import JobDir, JobDoor
from paceline.timing import SystemClock
from paceline.transport.address import TcpAddress
from paceline.transport.handshake import Secret
from tests.dashboard.test_picture import standing


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


def test_an_address_where_nobody_answers_is_refused_by_name() -> None:
    secret = Secret.parse("00" * 32, "a test")
    with socket.socket() as taken:  # and does not listen
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        door = JobDoor(TcpAddress("127.0.0.1", port), secret, is_plain=True)
        observer = Observer(door, "job", SystemClock())

        with pytest.raises(UsageError, match=f"no job is reached at 127.0.0.1:{port}"):
            observer.ask()


def test_a_job_that_is_resumed_is_over_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobDir(tmp_path)
    log = EventLog(job.events)
    log.write("RunBegun", {})
    job.summary.write_text('{"status": "failed", "reason": "why"}')
    observer = Observer(job, "job", SystemClock())
    assert head_of(observer)["state"] == "failed"
    assert observer.is_over

    job.summary.unlink()
    assert head_of(observer)["state"] == "not heard of"

    monkeypatch.setattr(Observer, "_status", lambda _: standing())
    observer.ask()
    assert head_of(observer)["state"] == "running"
    assert b"paceline_up 1.0" in observer.metrics()
    observer.close()


def test_a_run_that_begins_after_an_end_is_no_end() -> None:
    picture = Picture("job")
    picture.note_end({"status": "failed"}, None)

    picture.note_event({"t": 1.0, "event": "RunBegun", "cut": 2})

    assert not picture.is_over


def test_neither_a_strange_line_nor_a_bad_file_ends_the_telling(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.events.write_text('{"t": 1, "event": "log", "numbers": 7}\n')
    observer = Observer(job, "job", SystemClock())
    assert head_of(observer)["name"] == "job"
    observer.close()

    job.events.unlink()
    job.events.mkdir()
    observer = Observer(job, "job", SystemClock())
    assert "the events cannot be read" in head_of(observer)["trouble"]
    observer.close()
