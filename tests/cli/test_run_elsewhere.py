"""A job whose folder is lost goes on by its checkpoints."""

from pathlib import Path

import pytest

from paceline.cli import run as run_command
from paceline.config import Async, JobConfig
from paceline.launch.job.claiming import claimed
from paceline.launch.job.folder import JobDir
from paceline.watch.summary import Ending, Verdict
from tests.cli.running import Runs, exit_code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    stand_in = Runs(Verdict(Ending.TRAINED, ""))
    monkeypatch.setattr(run_command, "wait_local_run", stand_in)
    return stand_in


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a job has kept checkpoints, whose folder is lost."""
    place, lost = tmp_path / "cuts", JobDir(tmp_path / "lost")
    config = JobConfig(
        run="a1", servers=3, trainers=2, pace=Async(), seed=7, checkpoints=str(place)
    )
    with claimed(lost, config, "train.py", print, is_resumed=False):
        lost.config.unlink()
    return place


def test_it_has_a_new_folder_and_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, place: Path
) -> None:
    options = ["--resume", "--checkpoints", place, "--servers", 1]
    assert exit_code(monkeypatch, "run", *options, "train.py") == 0
    assert runs.is_resumed
    assert runs.job.path.parent == Path("runs").absolute()
    config = runs.config
    assert (config.job, config.checkpoints) == ("a1", str(place))
    assert config.run not in {"", "a1"}
    assert (config.servers, config.trainers) == (1, 2)
    assert (config.pace, config.seed) == (Async(), 7)


def test_its_new_folder_may_be_named(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, place: Path, tmp_path: Path
) -> None:
    options = ["--resume", "--checkpoints", place, "--job-dir", tmp_path / "new"]
    assert exit_code(monkeypatch, "run", *options, "train.py") == 0
    assert runs.job.path == tmp_path / "new"
    assert runs.config.job == "a1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "with --job-dir, or where that is lost with its machine"),
        (["--checkpoints", "nothing"], "no job has kept checkpoints at"),
        (["--checkpoints", "cuts", "--seed", 8], "the job began with seed 7"),
    ],
)
@pytest.mark.usefixtures("runs", "place")
def test_what_cannot_go_on_says_why(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    assert exit_code(monkeypatch, "run", "--resume", *options, "train.py") == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_same_command_begins_a_job_and_goes_on_with_it(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, tmp_path: Path
) -> None:
    command = ["run", "--resume-if-begun", "--job-dir", tmp_path / "job", "--pace", "async"]
    assert exit_code(monkeypatch, *command, "train.py") == 0
    assert not runs.is_resumed
    with claimed(runs.job, runs.config, "train.py", print, is_resumed=False):
        begun = runs.config

    assert exit_code(monkeypatch, *command, "train.py") == 0
    assert runs.is_resumed
    assert (runs.config.job, runs.config.pace) == (begun.job, begun.pace)
    assert runs.config.run != begun.run


@pytest.mark.usefixtures("runs")
def test_who_may_have_begun_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "run", "--resume-if-begun", "train.py") == 2
    assert "name it with --job-dir" in capsys.readouterr().err
