"""What is to be run, by the names that a command line can give it."""

from pathlib import Path

import pytest

from paceline.cli import run as run_command
from paceline.launch.job.commands import UserScript
from paceline.watch.summary import Ending, Verdict
from tests.cli.running import Runs, exit_code


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.touch()
    return path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    stand_in = Runs(Verdict(Ending.TRAINED, ""))
    monkeypatch.setattr(run_command, "wait_local_run", stand_in)
    return stand_in


def test_a_module_is_run_by_its_name_and_calls_the_job_by_its_last_word(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "train.py").touch()
    (tmp_path / "rules.py").touch()
    options = ["--trainers", 2, "-m", "--plugin", "rules"]

    assert exit_code(monkeypatch, "run", *options, "made.train", "--lr", "-m") == 0

    assert runs.script == UserScript("made.train", ("--lr", "-m"), is_module=True)
    assert runs.job.path.name.endswith("-train")
    assert runs.config.plugins == (str(tmp_path / "rules.py"),)
    assert exit_code(monkeypatch, "run", "-m", "made.trian") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["\udcff.py"], "the script: \\udcff.py has bytes that are no UTF-8"),
        (["--job-dir", "\udcff", "SCRIPT"], "--job-dir: "),
        (["--checkpoints", "a/\udcff", "SCRIPT"], "--checkpoints: "),
        (["--checkpoints", "s3://\udcff", "SCRIPT"], "--checkpoints: s3://\\udcff has"),
        (["--plugin", "\udcff.py", "SCRIPT"], "--plugin: "),
    ],
)
def test_names_that_are_no_utf8_are_refused_before_a_folder_is_made(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: Path,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(script.parent)
    (script.parent / "\udcff.py").touch()
    before = sorted(script.parent.iterdir())
    named = [str(script) if word == "SCRIPT" else word for word in arguments]

    assert exit_code(monkeypatch, "run", *named) == 2

    told = capsys.readouterr().err
    assert said in told
    assert "no UTF-8" in told
    assert sorted(script.parent.iterdir()) == before


def test_arguments_of_a_script_may_be_any_bytes(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path, tmp_path: Path
) -> None:
    options = ["--job-dir", tmp_path / "job"]
    assert exit_code(monkeypatch, "run", *options, script, "\udcff") == 0
    assert runs.script.arguments == ("\udcff",)


def test_an_option_of_paceline_behind_the_script_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(monkeypatch, "run", script, "--trainers", 2, "--lr", 1) == 0
    assert runs.script.arguments == ("--trainers", "2", "--lr", "1")
    said = f"paceline: --trainers 2 stands behind {script} and goes to it; for paceline "
    told = capsys.readouterr().err
    assert told.count(" goes to it") == 1
    assert said + "write it before\n" in told
