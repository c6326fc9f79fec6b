"""A run is tracked beside itself; a tool that fails is told, and changes nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job import JobDir
from paceline.trackers import Target, trackers_beside

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
