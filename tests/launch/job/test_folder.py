"""The job folder belongs to one job, and its files are whole."""

import shutil
import sys
from datetime import datetime
from pathlib import Path

import pytest
from msgspec import structs

from paceline.config import Async, JobConfig
from paceline.errors import StoreError, UsageError
from paceline.launch.job.files import write_secret
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.naming import fresh_job_dir
from paceline.transport.handshake import Secret

CONFIG = JobConfig(run="r1", trainers=3, pace=Async(push_every=4))


def test_the_config_comes_back_as_it_was(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "job")
    job.claim(CONFIG, "train.py")

    assert job.read_config() == CONFIG
    assert '"script": "train.py"' in job.config.read_text()


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("train.py", "train.py"),
        ("-m package.train", "-m package.train"),
        ("my train.py", "'my train.py'"),
    ],
)
def test_a_journal_of_another_format_is_refused_with_the_way_around_it(
    tmp_path: Path, script: str, shown: str
) -> None:
    job = JobDir(tmp_path)
    job.claim(CONFIG, script)
    written = job.config.read_text().replace('"journal_format": 3', '"journal_format": 1')
    job.config.write_text(written)
    job.journal.touch()

    with pytest.raises(UsageError, match=f"--job-dir {tmp_path} {shown}$"):
        job.claim_again(CONFIG, script, print)


def test_a_claimed_folder_is_refused_to_another_job(tmp_path: Path) -> None:
    JobDir(tmp_path).claim(CONFIG, "train.py")

    with pytest.raises(UsageError, match=r"already holds a job.*--job-dir") as refused:
        JobDir(tmp_path).claim(CONFIG, "my train.py")
    on = f"paceline run --resume --job-dir {tmp_path} train.py"
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


def test_the_end_is_not_written_into_a_folder_that_has_come_in_the_place_of_the_jobs(
    tmp_path: Path,
) -> None:
    job, other = JobDir(tmp_path / "job"), JobDir(tmp_path / "job")
    run = RunFile("r2", f"unix:{tmp_path}/coordinator.sock", str(tmp_path), 1)

    with job.hold():
        assert not job.is_another()
        shutil.rmtree(job.path)
        assert not job.is_another()
        other.claim(CONFIG, "train.py")
        other.write_run(run)
        write_secret(other.secret, Secret.fresh())
        told = str(job.write_end(None, {"status": "finished"}))
        job.forget_secret()

    assert told == (
        f"{job.summary} is not this run's, and stays as it is: the folder that the run "
        "began in was removed, and another one has its name by now"
    )

    assert other.read_run() == run
    assert other.read_summary() is None
    assert other.secret.exists()


def test_a_folder_without_a_job_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no job: it has no job\.json"):
        JobDir(tmp_path).read_config()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.summary.write_text("{")

    with pytest.raises(StoreError, match=r"summary\.json"):
        job.read_summary()


def resumed(job: JobDir) -> list[str]:
    """What is said when a job goes on in a folder."""
    said: list[str] = []
    with job.hold():
        job.claim_again(CONFIG, "train.py", said.append)
    return said


def test_a_resumed_job_makes_its_logs_anew(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.claim(CONFIG, "train.py")
    job.logs.rmdir()

    assert resumed(job) == []
    assert job.logs.is_dir()


@pytest.mark.parametrize("text", ["", "{", '{"run": "r', "[]", '{"run": 1}', "\x00\xff"])
def test_a_torn_run_file_is_removed_and_said(tmp_path: Path, text: str) -> None:
    job = JobDir(tmp_path)
    job.claim(CONFIG, "train.py")
    job.run_file.write_text(text, encoding="latin-1")

    [said] = resumed(job)

    assert f"cannot read {job.run_file}" in said
    assert "it is removed, since no job runs here" in said
    assert job.read_run() is None


def test_torn_files_of_the_last_end_do_not_matter(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.claim(CONFIG, "train.py")
    job.summary.write_text("{")
    job.status.touch()

    assert resumed(job) == []
    assert job.read_summary() is None
    assert job.read_status() is None


def test_a_folder_that_a_run_file_names_and_that_is_none_of_ours_is_left(
    tmp_path: Path,
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    job = JobDir(tmp_path / "job")
    job.claim(CONFIG, "train.py")
    job.write_run(RunFile("r1", "unix:x", str(precious), 1))

    [said] = resumed(job)

    assert f"names {precious} as the folder of the last run's sockets" in said
    assert "left as it is: expected paceline-* in" in said
    assert (precious / "thesis.tex").exists()
    assert job.read_run() is None


@pytest.mark.parametrize(
    "name",
    [
        *("job.json", "journal.sqlite", "journal.sqlite-wal", "events.jsonl", "run.json"),
        *("status.json", "summary.json", "secret", "logs/trainer-0.log"),
    ],
)
def test_a_folder_where_a_file_should_be_is_refused_by_name(
    tmp_path: Path, name: str
) -> None:
    job = JobDir(tmp_path)
    job.claim(CONFIG, "train.py")
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()

    with pytest.raises(UsageError, match=f"{name}: expected a file, found a folder; move"):
        resumed(job)


@pytest.mark.parametrize("name", ["checkpoints", "logs", "failpoints"])
def test_a_file_where_a_folder_should_be_is_refused_by_name(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    job = JobDir(tmp_path)
    refused = pytest.raises(
        UsageError, match=f"{name}: expected a folder, found a file; move it away: mv /"
    )
    with refused, job.hold():
        pass
    (tmp_path / name).unlink()
    job.claim(CONFIG, "train.py")
    if (tmp_path / name).is_dir():
        (tmp_path / name).rmdir()
    (tmp_path / name).touch()
    with refused:
        resumed(job)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    job = JobDir(tmp_path / "job")
    job.claim(CONFIG, "train.py")
    for name in ("events.jsonl", "logs/trainer-0.log", "logs/trainer-0.failure.json"):
        link = job.path / name
        link.symlink_to(tmp_path / "mine")
        with pytest.raises(UsageError, match=f"{name}: expected a file, found a link"):
            resumed(job)
        link.unlink()
    (job.path / "job.json.partial").symlink_to(tmp_path / "mine")
    assert resumed(job) == []
    assert (tmp_path / "mine").read_text() == "precious"


def test_checkpoints_may_lie_behind_a_link(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "job")
    job.claim(CONFIG, "train.py")
    job.checkpoints.rmdir()
    (tmp_path / "large disk").mkdir()
    job.checkpoints.symlink_to(tmp_path / "large disk")

    assert resumed(job) == []


def test_a_folder_that_cannot_be_held_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # nor does Linux have msvcrt
    with pytest.raises(UsageError, match="cannot be held by one job: this system has no"):
        JobDir(tmp_path / "job").hold().__enter__()


def test_options_that_each_run_names_anew_are_kept_for_the_next(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "job")
    job.claim(CONFIG, "train.py", ("3",), ("--listen", ":7070"))
    told = f"paceline run --resume --job-dir {job.path}"
    assert job.resume_command() == f"{told} --listen :7070 train.py 3"
    with job.hold():
        job.keep_options(("--plugin", "rules"))
        assert job.resume_command() == f"{told} --plugin rules train.py 3"
        assert job.read_config() == CONFIG
        job.claim_again(CONFIG, "train.py", print)
    assert job.resume_command() == f"{told} train.py"


def test_a_job_is_gone_on_with_as_it_was_started_last(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "job")
    plugins = structs.replace(CONFIG, plugins=("rules",))
    job.claim(plugins, "train.py", ("--epochs", "3"))
    told = f"paceline run --resume --job-dir {job.path} --plugin rules train.py --epochs"
    assert job.resume_command() == f"{told} 3"

    with job.hold():
        job.claim_again(plugins, "train.py", print, ("--epochs", "5", "\udcff"))
    assert job.resume_command() == f"{told} 5 '\ufffd'", "what is no text is seen not to be"
