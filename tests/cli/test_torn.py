"""What commands say of a folder whose files are torn, or are no files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.events import EventLog
from paceline.launch.job.folder import JobDir
from tests.cli.running import exit_code

TORN = [b"", b"{", b"[]", b'{"run": 7, "status": 7}', b"\xff\x00", b"null"]


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    found = JobDir(tmp_path / "job")
    found.claim(JobConfig(run="r1"), "train.py")
    return found


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What a command says that fails."""

    def run(*arguments: object) -> str:
        assert exit_code(monkeypatch, *arguments) in {1, 2}
        told = capsys.readouterr().err
        assert told.startswith("paceline: ")
        assert told.count("\n") == 1
        return told

    return run


@pytest.mark.parametrize("data", TORN)
@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("summary.json", "--resume does without: remove it"),
        ("run.json", "if no job runs there, --resume mends it"),
    ],
)
def test_the_status_of_a_torn_folder_is_a_sentence(
    job: JobDir, said: Callable[..., str], name: str, remedy: str, data: bytes
) -> None:
    (job.path / name).write_bytes(data)
    told = said("status", job.path)
    assert str(job.path / name) in told
    assert remedy in told


def test_a_summary_that_tells_too_little_is_a_sentence(
    job: JobDir, said: Callable[..., str]
) -> None:
    job.write_end(None, {"status": "finished"})
    assert f"{job.summary} is none of this version" in said("status", job.path)


def test_a_torn_folder_does_not_hide_a_job_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, data in (("torn", b"{"), ("large", b'{"pid": 1e99}')):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_bytes(data)
    assert "no job runs in a folder of runs" in said("scale", "2")


@pytest.mark.parametrize("data", TORN)
def test_a_torn_status_is_a_sentence(
    job: JobDir, said: Callable[..., str], data: bytes
) -> None:
    job.write_end(None, {"status": "finished"})
    job.status.write_bytes(data)
    assert f"cannot read {job.status}" in said("status", job.path)


@pytest.mark.parametrize("data", TORN)
def test_a_torn_description_of_the_job_is_a_sentence(
    job: JobDir, said: Callable[..., str], data: bytes
) -> None:
    job.config.write_bytes(data)
    (job.path / "train.py").touch()
    told = said("run", "--resume", "--job-dir", job.path, job.path / "train.py")
    assert f"cannot read {job.config}" in told
    assert "put a copy of it back" in told
    assert f"cannot read {job.config}" in said("checkpoint", "list", job.path)


@pytest.mark.parametrize("name", ["summary.json", "run.json"])
def test_a_folder_in_the_place_of_a_file_is_a_sentence(
    job: JobDir, said: Callable[..., str], name: str
) -> None:
    (job.path / name).mkdir()
    assert f"{name}: expected a file, found a folder" in said("status", job.path)


def test_a_file_in_the_place_of_the_folder_is_a_sentence(
    tmp_path: Path, said: Callable[..., str]
) -> None:
    (tmp_path / "file").touch()
    assert "Not a directory" in said("status", tmp_path / "file")
    assert "there is no job folder" in said("draw", tmp_path / "file")


def test_events_that_are_none_are_passed_over(
    job: JobDir, said: Callable[..., str]
) -> None:
    assert "events.jsonl: No such file" in said("draw", job.path)
    log = EventLog(job.events)
    log.write("progress", {"records": "many", "trainers": []})
    log.write("progress", {"records": 1, "trainers": [7]})
    log.write("log", {"trainer": 7, "numbers": 7})
    log.write("progress", {"records": [], "trainers": {}})
    log.close()
    with job.events.open("ab") as file:
        file.write(
            b'{"t": 1e999, "event": "progress", "records": 1e999}\n{"t": nul\n\xff\n[]\n7'
        )
    assert "tells of no progress yet" in said("draw", job.path)


def test_a_picture_is_not_drawn_through_a_link(
    job: JobDir, said: Callable[..., str], tmp_path: Path
) -> None:
    job.events.touch()
    job.picture.symlink_to(tmp_path / "precious")
    assert "run.png: expected a file, found a link" in said("draw", job.path)
