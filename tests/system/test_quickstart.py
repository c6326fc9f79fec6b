"""The script of the quickstart runs as it stands, and learns."""

import json
import os
import re
from pathlib import Path

import pytest

from benchmarks.harness.processes import wait_started
from paceline.launch.job.commands import Command
from paceline.launch.job.folder import JobDir
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import wait_any

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
SCRIPT = re.compile(r"^```python\n(import torch\n.*?)^```", re.MULTILINE | re.DOTALL)
WAIT_S = 600.0


def test_the_script_of_the_quickstart_trains_every_record(
    forks: ForkServer, tmp_path: Path
) -> None:
    found = SCRIPT.search(PAGE.read_text())
    assert found
    assert "200_000" in found[1]
    script = tmp_path / "train.py"
    script.write_text(found[1].replace("200_000", "20_000"))
    job = JobDir(tmp_path / "job")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PACELINE_JOB_DIR": str(job.path)}

    command = Command((str(script),), environment)
    child = wait_started(forks, "trainer-0", command, tmp_path / "log")

    assert wait_any([child], WAIT_S) == [child]
    assert child.reap() == 0, child.last_lines()
    summary = json.loads(job.summary.read_text())
    assert summary["records"] == 3 * 20_000
    assert summary["metrics"]["loss"] < 0.69, "it has learned nothing"
