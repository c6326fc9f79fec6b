"""When, where and how many cuts a job takes is said on the command line."""

from pathlib import Path

import pytest

from paceline.cli import run as run_command
from paceline.config import JobConfig
from paceline.launch.local import LocalRun, RunResult
from paceline.watch.summary import Ending, Restarts, RunTime, Verdict, summarize
from tests.cli.running import STATUS, exit_code


class Asked:
    """Stands in for the run itself, and keeps what it was asked for."""

    config = JobConfig(run="none")

    def __call__(self, run: LocalRun, *_: object, **__: object) -> RunResult:
        self.config = run.config
        summary = summarize(
            STATUS, Verdict(Ending.TRAINED, ""), Restarts(), 2.0, "j", RunTime(0.0)
        )
        return RunResult(summary, Verdict(Ending.TRAINED, ""))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    monkeypatch.chdir(tmp_path)
    stand_in = Asked()
    monkeypatch.setattr(run_command, "wait_local_run", stand_in)
    return stand_in


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.touch()
    return path


@pytest.mark.parametrize(
    ("text", "seconds", "steps"),
    [("60s", 60, 0), ("1000steps", 0, 1000), ("1 step", 0, 1), ("off", 0, 0), ("0", 0, 0)],
)
def test_checkpoints_are_taken_by_time_by_steps_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
    asked: Asked,
    script: Path,
    *,
    text: str,
    seconds: float,
    steps: int,
) -> None:
    options = ["--checkpoint-every", text, "--keep", 3, "--checkpoints", "memory://cuts"]
    assert exit_code(monkeypatch, "run", *options, "--job-dir", "j", script) == 0
    config = asked.config
    assert (config.cut_every_s, config.cut_every_steps) == (seconds, steps)
    assert (config.keep_cuts, config.checkpoints) == (3, "memory://cuts")


def test_a_folder_of_checkpoints_is_the_same_for_every_process(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, script: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--checkpoints", "cuts", "--job-dir", "j"]
    assert exit_code(monkeypatch, "run", *options, script) == 0
    assert asked.config.checkpoints == str(tmp_path / "cuts")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--checkpoint-every", "often"], "1000steps, or off, got 'often'"),
        (["--keep", "0"], "keep_cuts must be >= 1, got 0"),
        (["--checkpoints", "nowhere://x"], "install what fsspec needs"),
    ],
)
def test_what_checkpoints_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    asked: Asked,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    options: list[str],
    reason: str,
) -> None:
    assert exit_code(monkeypatch, "run", *options, "--job-dir", "j", script) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert asked.config.run == "none", "nothing was started"
