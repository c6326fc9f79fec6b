"""The job folder belongs to one job, and its files are whole."""

from datetime import datetime
from pathlib import Path

import pytest

from paceline.config import Async, JobConfig
from paceline.errors import StoreError, UsageError
from paceline.launch.folder import (
    JobDir,
    RunFile,
    fresh_job_dir,
    make_sockets,
    remove_sockets,
)

CONFIG = JobConfig(run="r1", trainers=3, pace=Async(push_every=4))


def test_the_config_comes_back_as_it_was(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "job")
    job.claim(CONFIG, "train.py")

    assert job.read_config() == CONFIG
    assert '"script": "train.py"' in job.config.read_text()


def test_a_claimed_folder_is_refused_to_another_job(tmp_path: Path) -> None:
    JobDir(tmp_path).claim(CONFIG, "train.py")

    with pytest.raises(UsageError, match=r"already holds a job.*--job-dir") as refused:
        JobDir(tmp_path).claim(CONFIG, "my train.py")
    on = f"paceline run --resume --job-dir {tmp_path} 'my train.py'"
    assert on in str(refused.value)


def test_a_folder_with_a_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.journal.write_bytes(b"precious")

    with pytest.raises(UsageError, match="already holds a job"):
        job.claim(CONFIG, "train.py")

    assert [path.name for path in tmp_path.iterdir()] == ["journal.sqlite"]


def test_a_second_launcher_of_a_running_job_is_refused(tmp_path: Path) -> None:
    first, second = JobDir(tmp_path), JobDir(tmp_path)
    running = pytest.raises(UsageError, match=r"its job is running; end it .*--job-dir")
    with first.hold(), running, second.hold():
        pass
    with second.hold():
        pass  # the first hold went with its holder


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="cannot make the job folder"):
        JobDir(tmp_path / "file" / "job").claim(CONFIG, "train.py")


def test_two_jobs_of_one_second_get_two_folders(tmp_path: Path) -> None:
    now_s = datetime(2026, 3, 1, 10, 15).astimezone().timestamp()

    names = [fresh_job_dir(tmp_path, "here/train.py", now_s).name for _ in range(3)]

    assert names == [
        "20260301-101500-train",
        "20260301-101500-train-2",
        "20260301-101500-train-3",
    ]


def test_the_run_file_is_there_only_while_the_job_runs(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    run = RunFile("r1", f"unix:{tmp_path}/coordinator.sock", str(tmp_path), 1)
    assert job.read_run() is None

    job.write_run(run)
    assert job.read_run() == run
    assert job.read_summary() is None

    job.write_end(None, {"status": "finished"})
    assert job.read_run() is None
    assert job.read_summary() == {"status": "finished"}
    assert job.read_status() is None


def test_a_folder_without_a_job_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no job: it has no job\.json"):
        JobDir(tmp_path).read_config()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.summary.write_text("{")

    with pytest.raises(StoreError, match=r"summary\.json"):
        job.read_summary()


def test_sockets_lie_in_a_private_short_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_folder = tmp_path / ("x" * 100)
    long_folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long_folder))

    folder = make_sockets()
    try:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(str(folder / "coordinator.sock")) < 107
        (folder / "coordinator.sock").touch()
    finally:
        remove_sockets(folder)
        remove_sockets(folder)
    assert not folder.exists()
    assert list(long_folder.iterdir()) == []
