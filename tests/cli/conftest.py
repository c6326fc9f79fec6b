"""A script, and a run that is none."""

from pathlib import Path

import pytest

from paceline.cli import run as run_command
from paceline.watch.summary import Ending, Verdict
from tests.cli.running import Runs


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
