"""The first batch of a process has a time of its own; who needs longer is named."""

import time
from pathlib import Path

import pytest
import torch
from torch import nn

from paceline.config import Async, JobConfig
from paceline.launch.embedded import EmbeddedJob
from paceline.timing import Deadline, SystemClock
from paceline.trainer.engine.engine import StepWarning

DATA = torch.arange(24.0).reshape(24, 1)
PATIENCE_S = 60.0


def test_who_needs_longer_is_lost_with_the_reason_and_its_records_count_once(
    tmp_path: Path,
) -> None:
    config = JobConfig(run="first", pace=Async(), timeout_s=60.0, first_batch_s=0.2)
    job = EmbeddedJob(config, tmp_path / "job")
    events = tmp_path / "job" / "events.jsonl"
    deadline = Deadline(SystemClock(), PATIENCE_S)
    model, num_batches = nn.Linear(1, 1, bias=False), 0
    nn.init.zeros_(model.weight)
    # By a server that has been told already, or by the coordinator that tells it.
    told = r"step dropped: .*incarnation \d is (fenced|over)"
    dropped = pytest.warns(StepWarning, match=told)
    with dropped, job.session("trainer-0") as session:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, maximize=True)
        stepped = session.share(model, optimizer)
        for batch in session.batches(DATA, 2, task_size=4):
            while num_batches == 0 and "MarksSettled" not in events.read_text():
                assert not deadline.is_over(), "nobody is lost"
                time.sleep(0.01)  # the model is being compiled
            num_batches += 1
            stepped.zero_grad()
            model(batch).sum().backward()
            stepped.step()
    assert model.weight.item() == float(DATA.sum())
    assert num_batches > len(DATA) // 2, "the first one was trained again"
    assert "was not acknowledged in 0.2 s (--first-batch)" in events.read_text()
    assert job.close()["records"] == len(DATA)
