"""A run is tracked beside itself; a tool that fails is told, and changes nothing."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import UsageError
from paceline.launch.job import JobDir
from paceline.trackers import Target, beside, trackers_beside
from tests.trackers.tracked import WrittenJob

SCRIPT = """
import torch, paceline
session = paceline.connect()
model = torch.nn.Linear(2, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
for (batch,) in session.batches((torch.randn(320, 2),), batch_size=32):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    session.log(loss=loss.item())
"""


def test_a_tool_that_is_not_installed_is_refused_before_anything_is_started(
    tmp_path: Path,
) -> None:
    beside = trackers_beside(JobDir(tmp_path), [Target("no_such_tool", "")], print)
    with (
        pytest.raises(UsageError, match="no_such_tool is not installed: pip install"),
        beside,
    ):
        raise AssertionError("nothing is started")


def child_of(job: JobDir, target: str, launcher: int) -> "subprocess.Popen[bytes]":
    """A tracker's process, which waits for the run of a launcher."""
    quiet = ("-W", "ignore::RuntimeWarning:runpy")
    command = (sys.executable, *quiet, "-m", "paceline.trackers.beside")
    arguments = (*command, str(job.path), target, "0", str(launcher))
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_run_that_is_over_before_its_tracker_looks_is_tracked_and_an_error_is_a_line(
    tmp_path: Path,
) -> None:
    written = WrittenJob(tmp_path)
    written.ends()
    (written.job.path / "trackers").write_text("no folder")
    child = child_of(written.job, f"tensorboard:{tmp_path / 'logs'}", os.getpid())
    _, errors = child.communicate(beside.OVER, timeout=60)

    assert errors == b""
    assert child.returncode == 2, "it has tried"
    [failed] = written.job.log("tracker-0").read_text().splitlines()  # no traceback
    assert failed.startswith("paceline: ")


def test_a_tracker_whose_launcher_goes_before_its_run_has_begun_writes_nothing(
    tmp_path: Path,
) -> None:
    """The folder may hold an earlier run, which is nobody's concern."""
    written = WrittenJob(tmp_path)
    written.ends()
    child = child_of(written.job, f"tensorboard:{tmp_path / 'logs'}", os.getpid())
    child.communicate(timeout=60)  # which closes the pipe

    assert child.returncode == 0
    assert not written.job.log("tracker-0").exists()
    assert not (tmp_path / "logs").exists()


class SlowChild:
    """A tracker's process that needs longer than a moment, once its run is over."""

    returncode = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stdin = io.BytesIO()
        self.waits: list[float] = []

    def wait(self, timeout: float) -> int:
        self.waits.append(timeout)
        if len(self.waits) == 1:
            raise subprocess.TimeoutExpired("tracker", timeout)
        return 0


def test_what_a_run_waits_for_at_its_end_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside.subprocess, "Popen", SlowChild)
    monkeypatch.setattr(beside.importlib.util, "find_spec", lambda _: True)
    said: list[str] = []
    with trackers_beside(JobDir(tmp_path), [Target("tensorboard", "")], said.append):
        assert not said

    assert said == ["waits until all is written to tensorboard, for 15 s at most"]


@pytest.mark.around
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.filterwarnings("ignore")  # the reader's own
def test_a_run_is_tracked_to_its_end_and_a_tool_that_fails_changes_nothing(
    tmp_path: Path,
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
        EventAccumulator,
    )

    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "taken").write_text("no folder")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "paceline.cli.main", "run", "--job-dir", "job"),
            *("--track", "tensorboard:logs", "--track", "tensorboard:taken", "train.py"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    read = EventAccumulator(str(tmp_path / "logs" / "job"))
    read.Reload()
    events = (tmp_path / "job" / "events.jsonl").read_text().splitlines()
    logged = [one for one in map(json.loads, events) if one["event"] == "log"]
    assert len(read.Scalars("loss")) == len(logged) > 0
    assert "tensorboard:taken was left with exit code 1" in done.stderr
    assert "the job is over (finished)" in (tmp_path / "job/logs/tracker-0.log").read_text()
    assert "cannot write to" in (tmp_path / "job/logs/tracker-1.log").read_text()
