"""A script that asks for what cannot be ends the job at once, and its error is shown."""

import json
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from paceline.watch.progress import open_show

SCRIPTS = {
    "import paceline\nnext(paceline.connect().batches([1], 1))": (
        "UsageError: batches: share a model (session.share)"
    ),
    "import argparse\nargparse.ArgumentParser().parse_args(['--rate'])": (
        "unrecognized arguments: --rate"
    ),
    "print('as if it were alone')": "none has called paceline.connect()",
    "import os, paceline\nos.environ['PACELINE_RUN'] = 'other'\npaceline.connect()": (
        "ForeignPeer: "
    ),
}


@pytest.mark.system
@pytest.mark.timeout(0)
@pytest.mark.parametrize("script", SCRIPTS)
def test_wrong_usage_is_not_started_again(
    script: str, tmp_path: Path, forks: ForkServer
) -> None:
    path = tmp_path / "train.py"
    path.write_text(script)
    job = JobDir(tmp_path / "job")
    with (tmp_path / "out").open("w") as out:
        show = open_show(out)
        run = LocalRun(JobConfig(run="run"), UserScript(str(path), ()), job)
        result = wait_local_run(run, show, SystemClock(), forks=forks)
        show.close()
    assert result.verdict.exit_code == 1
    assert SCRIPTS[script] in result.verdict.reason
    assert json.loads(job.summary.read_text())["restarts"]["trainer"] == 0


STEPPED = """
import paceline, torch
session = paceline.connect()
model = torch.nn.Linear(4, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.01))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda steps: 1 / (1 + steps))
data = torch.utils.data.TensorDataset(torch.randn(1700, 4), torch.randn(1700, 1))
for _ in range(3):
    for inputs, labels in session.batches(data, batch_size=20):
        ((model(inputs) - labels) ** 2).mean().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
"""


@pytest.mark.system
@pytest.mark.timeout(0)
def test_schedulers_that_come_to_differ_fail_the_job_once_and_by_name(
    tmp_path: Path, forks: ForkServer
) -> None:
    path = tmp_path / "train.py"
    path.write_text(STEPPED)
    job = JobDir(tmp_path / "job")
    config = JobConfig(run="run", trainers=3)
    with (tmp_path / "out").open("w") as out:
        show = open_show(out)
        run = LocalRun(config, UserScript(str(path), ()), job)
        result = wait_local_run(run, show, SystemClock(), forks=forks)
        show.close()
    assert result.verdict.exit_code == 1
    assert "step with different hyper-parameters: lr 0.0" in result.verdict.reason
    assert "session.schedule(optimizer, factor)" in result.verdict.reason
    assert json.loads(job.summary.read_text())["restarts"]["server"] == 0
