"""The small files of a job folder, on a disk that is full or read-only."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.errors import StoreFull, UsageError
from paceline.launch.job.files import require_space, write_whole
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.naming import fresh_job_dir

CONFIG = JobConfig(run="r1")
RUN = RunFile("r1", "unix:/nowhere", "/nowhere", 1)


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let nothing be written below any folder from now on."""

    def refuse(self: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    def refusing() -> None:
        monkeypatch.setattr(Path, "write_bytes", refuse)
        monkeypatch.setattr(Path, "open", refuse)

    return refusing


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_half(
    tmp_path: Path, fill: Callable[[], None]
) -> None:
    path = tmp_path / "status.json"
    write_whole(path, {"records": 1})
    fill()
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, {"records": 2})
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_job_that_finds_no_space_for_its_folder_says_so(
    tmp_path: Path, fill: Callable[[], None]
) -> None:
    job = JobDir(tmp_path / "job")
    fill()
    full = rf"job folder {job.path}: the disk is full; free space there, or .*--job-dir"
    with pytest.raises(StoreFull, match=full):
        job.claim(CONFIG, "train.py")
    assert not job.config.exists(), "it can be claimed once there is space"
    with pytest.raises(StoreFull, match="the disk is full"):
        require_space(tmp_path)
    with pytest.raises(StoreFull, match="the disk is full"):
        job.write_run(RUN)


def test_a_folder_on_a_read_only_disk_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    hold = JobDir(tmp_path / "job").hold()
    with pytest.raises(StoreFull, match="the disk is read-only"), hold:
        pass
    with pytest.raises(StoreFull, match="the disk is read-only"):
        fresh_job_dir(tmp_path, "train.py", 0.0)


def test_a_folder_that_may_not_be_made_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot make the job folder"):
        fresh_job_dir(tmp_path / "file", "train.py", 0.0)


def test_the_end_is_told_even_if_it_cannot_be_kept(
    tmp_path: Path, fill: Callable[[], None]
) -> None:
    job = JobDir(tmp_path)
    job.write_run(RUN)
    fill()
    said = job.write_end(None, {"status": "finished"})
    assert said == f"{job.summary} could not be written: the disk is full"
    assert os.listdir(tmp_path) == [], "nobody takes it for a job that runs"
