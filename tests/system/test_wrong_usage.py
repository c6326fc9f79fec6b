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
