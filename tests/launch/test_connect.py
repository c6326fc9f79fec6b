"""`connect()` in one process: the same session, until it is closed."""

import importlib
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.embedded import EmbeddedJob

connecting = importlib.import_module("paceline.launch.connect")


@pytest.fixture(autouse=True)
def no_session_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connecting, "_sessions", [])
    monkeypatch.setattr(connecting, "_jobs", [])
    monkeypatch.setattr("sys.argv", ["script.py"])
    monkeypatch.chdir(tmp_path)


def test_asking_again_returns_the_same_session_until_it_is_closed(tmp_path: Path) -> None:
    first = connecting.connect()
    assert connecting.connect() is first
    assert first.once("it")
    first.close()
    second = connecting.connect()
    assert second is not first
    assert second.once("it"), "a job of its own"
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert (folders[0] / "summary.json").exists(), "the first job has ended"
    second.close()
    for job in connecting._jobs:
        job.close()


def test_a_trainer_of_a_job_that_has_left_it_connects_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = EmbeddedJob(JobConfig(run="left"), tmp_path / "job")
    session = job.session("trainer-0")  # as if the environment had named the job
    monkeypatch.setattr(connecting, "_sessions", [session])
    assert connecting.connect() is session
    session.close()
    with pytest.raises(UsageError, match="close the session when the script is done"):
        connecting.connect()
    job.close()
