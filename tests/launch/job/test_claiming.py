"""A run begins nothing before its folder and the place of its cuts are its own."""

import errno
import io
import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from paceline.config import JobConfig
from paceline.errors import JobFailed, StoreError, UsageError
from paceline.launch.job import claiming
from paceline.launch.job.claiming import claimed, job_of
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.local import LocalRun, wait_local_run
from paceline.launch.processes.process import Child
from paceline.store.blobs.blobs import BlobStore
from paceline.store.blobs.retries import Patience
from paceline.store.cuts.claims import Claim, claim_place, newest_claim
from paceline.timing import SystemClock
from paceline.watch.progress import open_show


class StandInForks:
    """A fork server that tells that it was asked."""

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        del command, log
        raise JobFailed(f"{role} would have been started")

    def close(self) -> None:
        raise AssertionError("it outlives the job")


def run(folder: Path, place: Path | str, run: str, *, is_resumed: bool = False) -> str:
    """Begin a run; why it ended when all was claimed, and processes were to be started."""
    job = JobDir(folder)
    config = JobConfig(run=run, checkpoints=str(place))
    result = wait_local_run(
        LocalRun(config, UserScript("train.py", ()), job, is_resumed),
        open_show(io.StringIO()),
        SystemClock(),
        forks=StandInForks(),  # type: ignore[arg-type]  # a stand-in
    )
    return result.verdict.reason


def test_a_run_claims_its_place_before_a_process_is_started(tmp_path: Path) -> None:
    place = tmp_path / "cuts"
    assert "would have been started" in run(tmp_path / "a", place, "a1")
    first = newest_claim(BlobStore(str(place)))
    assert first is not None
    assert (first.job, first.run, first.number) == ("a1", "a1", 1)
    assert first.folder == str(tmp_path / "a")
    assert f"process {os.getpid()} on" in first.holder
    run(tmp_path / "a", place, "a2", is_resumed=True)
    second = newest_claim(BlobStore(str(place)))
    assert second is not None
    assert (second.job, second.run, second.number) == ("a1", "a2", 2)


def test_a_job_that_is_refused_a_place_may_begin_with_another(tmp_path: Path) -> None:
    run(tmp_path / "a", tmp_path / "cuts", "a1")
    for _ in range(2):
        with pytest.raises(UsageError, match="the checkpoints of another job"):
            run(tmp_path / "b", tmp_path / "cuts", "b1")
    assert "would have been started" in run(tmp_path / "b", tmp_path / "cuts-b", "b1")


def test_the_own_folder_of_a_job_is_a_place_like_others(tmp_path: Path) -> None:
    run(tmp_path / "a", "", "a1")
    (tmp_path / "a" / "job.json").unlink()
    with pytest.raises(UsageError, match="the checkpoints of another job"):
        run(tmp_path / "a", "", "b1")


def test_what_a_refused_run_would_have_gone_on_with_is_as_it_was(tmp_path: Path) -> None:
    run(tmp_path / "a", tmp_path / "cuts", "a1")
    copy = JobDir(Path(shutil.copytree(tmp_path / "a", tmp_path / "copy")))
    job = JobDir(tmp_path / "a")
    config = JobConfig(run="a2", checkpoints=str(tmp_path / "cuts"))
    with claimed(job, config, "train.py", print, is_resumed=True) as now:
        assert (now.job, now.run) == ("a1", "a2")
        with pytest.raises(UsageError, match="another copy of its folder"):
            run(copy.path, tmp_path / "cuts", "a3", is_resumed=True)
    assert copy.read_summary() is not None
    assert json.loads(copy.config.read_text())["run"] == "a1"


def test_a_full_place_is_told_at_once_and_the_same_command_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", refuse)
        with pytest.raises(StoreError, match="the disk is full"):
            run(tmp_path / "a", tmp_path / "cuts", "a1")
    assert "would have been started" in run(tmp_path / "a", tmp_path / "cuts", "a1")


def test_trouble_that_passes_ends_no_job_that_goes_on_and_is_told_at_once_to_who_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(claiming, "_RESUMED", Patience(wait=pauses.append))
    sync, troubles = os.fsync, [OSError(errno.EIO, "a moment")]

    def fail_once(descriptor: int) -> None:
        if troubles:
            raise troubles.pop()
        sync(descriptor)

    run(tmp_path / "a", tmp_path / "cuts", "a1")
    monkeypatch.setattr(os, "fsync", fail_once)
    again = run(tmp_path / "a", tmp_path / "cuts", "a2", is_resumed=True)
    assert "would have been started" in again
    assert pauses == [Patience().pauses_s[0]]
    troubles.append(OSError(errno.EIO, "a moment"))
    with pytest.raises(StoreError, match="a moment"):
        run(tmp_path / "b", tmp_path / "others", "b1")


def test_a_job_of_which_nothing_is_left_says_that_it_begins_anew(tmp_path: Path) -> None:
    run(tmp_path / "a", tmp_path / "cuts", "a1")
    job = JobDir(tmp_path / "a")

    def resumed(number: int) -> list[str]:
        said: list[str] = []
        config = JobConfig(run=f"a{number}", checkpoints=str(tmp_path / "cuts"))
        with claimed(job, config, "train.py", said.append, is_resumed=True):
            return said

    assert resumed(2) == [
        f"goes on with nothing: there is neither a journal in {job.path} nor a checkpoint "
        f"in {tmp_path / 'cuts'}, so the job begins anew"
    ]
    job.journal.touch()
    assert resumed(3) == []


def test_a_job_whose_folder_is_lost_goes_on_by_what_its_checkpoints_say(
    tmp_path: Path,
) -> None:
    place = tmp_path / "cuts"
    run(tmp_path / "a", place, "a1")
    shutil.rmtree(tmp_path / "a")
    config = structs.replace(job_of(str(place)), run="a2")
    assert (config.job, config.checkpoints) == ("a1", str(place))
    job = JobDir(tmp_path / "b")
    with claimed(job, config, "train.py", print, is_resumed=True):
        second = newest_claim(BlobStore(str(place)))
    assert second is not None
    assert (second.job, second.run, second.folder) == ("a1", "a2", str(tmp_path / "b"))
    assert job.read_config() == config
    config = structs.replace(config, run="a3")  # and from there as any job
    with claimed(job, config, "train.py", print, is_resumed=True):
        assert job.read_config().job == "a1"


def test_where_no_job_has_checkpoints_none_goes_on(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no job has kept checkpoints at"):
        job_of(str(tmp_path / "cuts"))


def test_what_a_version_before_has_claimed_asks_for_its_folder(tmp_path: Path) -> None:
    claim = Claim(job="a", run="a1", holder="process 7 on x", folder="/jobs/a")
    claim_place(BlobStore(str(tmp_path)), claim)
    with pytest.raises(UsageError, match=r"run 1 of job a, .*name its folder"):
        job_of(str(tmp_path))


def test_the_second_launcher_of_a_job_is_told_who_runs_it_and_since_when(
    tmp_path: Path,
) -> None:
    run(tmp_path / "a", tmp_path / "cuts", "a1")
    job = JobDir(tmp_path / "a")
    job.write_run(RunFile("a2", "tcp:127.0.0.1:1", "/nowhere", 7))
    with (
        job.hold(),
        pytest.raises(UsageError, match=r"is running \(process 7, since 20\d\d-"),
    ):
        run(tmp_path / "a", tmp_path / "cuts", "a3", is_resumed=True)
    config = structs.replace(job_of(str(tmp_path / "cuts")), run="a3")
    with (
        claimed(job, config, "train.py", print, is_resumed=True),
        pytest.raises(UsageError, match=rf"begun at 20\d\d-.* by process {os.getpid()} on"),
        claimed(JobDir(tmp_path / "b"), config, "train.py", print, is_resumed=True),
    ):
        raise AssertionError("two launchers hold one place")


def test_a_folder_that_cannot_be_the_jobs_leaves_the_place_to_who_has_it(
    tmp_path: Path,
) -> None:
    place = tmp_path / "cuts"
    run(tmp_path / "a", place, "a1")
    config = structs.replace(job_of(str(place)), run="a2")
    job = JobDir(tmp_path / "b")
    job.path.mkdir()
    job.journal.touch()  # of whatever job
    with (
        pytest.raises(UsageError, match="already holds a job"),
        claimed(job, config, "train.py", print, is_resumed=True),
    ):
        raise AssertionError("it began")
    claim = newest_claim(BlobStore(str(place)))
    assert claim is not None
    assert claim.run == "a1"


def test_a_description_of_another_version_names_the_way_around_it(tmp_path: Path) -> None:
    place = tmp_path / "cuts"
    claim = Claim(
        job="a", run="a1", holder="x", folder="/a", config='{"run": "a1", "pace": 7}'
    )
    claim_place(BlobStore(str(place)), claim)
    with pytest.raises(UsageError, match="described by another version of paceline"):
        job_of(str(place))
