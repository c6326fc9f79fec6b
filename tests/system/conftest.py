"""Real processes, forked from one that has everything imported."""

import os
from collections.abc import Iterator

import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    log = tmp_path_factory.mktemp("forks") / "log"
    server = ForkServer({**os.environ, "OMP_NUM_THREADS": "1"}, log, SystemClock())
    yield server
    server.close()
