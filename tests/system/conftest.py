"""Real processes, forked from one that has everything imported."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from tests.system.disk_scenes import Disk


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    log = tmp_path_factory.mktemp("forks") / "log"
    server = ForkServer({**os.environ, "OMP_NUM_THREADS": "1"}, log, SystemClock())
    yield server
    server.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    disk = Disk(place)
    yield disk
    disk.allow()
    subprocess.run(["umount", "-l", str(place)], check=True)
