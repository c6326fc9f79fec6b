"""The Python of the pages for users runs as it stands there, embedded in one process.

`tests/docs/completing.py` says what a fragment needs around it, `tests/docs/test_blocks.py`
that none is left out.
"""

import os
from pathlib import Path

import pytest

from benchmarks.harness.processes import wait_started
from paceline.launch.job.commands import Command
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import wait_any
from tests.docs.completing import pages_that_run, script_of

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
WAIT_S = 300.0
WITH_PROCESSES = {"docs/command-line.md"}  # tests/system/test_pages_typed.py runs these


@pytest.mark.parametrize("page", [p for p in pages_that_run() if p not in WITH_PROCESSES])
def test_the_python_of_a_page_runs(page: str, forks: ForkServer, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{script_of(page)}")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PACELINE_QUIET": "1"}
    command = Command((str(script),), environment)
    child = wait_started(forks, "trainer-0", command, tmp_path / "log")
    assert wait_any([child], WAIT_S) == [child]
    assert child.reap() == 0, "\n".join([*child.last_lines(), f"in {script}"])
