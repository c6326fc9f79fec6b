"""Jobs of scripts of their own, ended behind each test."""

import io
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.own_job import OwnJob
from tests.launch.own_jobs import SCRIPT, Begin


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def ended() -> queue.Queue[int]:
    """Codes that the process would have ended with."""
    return queue.Queue()


@pytest.fixture
def begin(
    tmp_path: Path, output: io.StringIO, ended: "queue.Queue[int]"
) -> Iterator[Begin]:
    made: list[OwnJob] = []

    def make(*, is_quiet: bool = False, is_interactive: bool = False) -> OwnJob:
        made.append(
            OwnJob(
                JobConfig(run="own"),
                tmp_path / "job",
                SCRIPT,
                output,
                ended.put,
                is_quiet=is_quiet,
                is_interactive=is_interactive,
            )
        )
        return made[-1]

    yield make
    for job in made:
        job.end(None)
