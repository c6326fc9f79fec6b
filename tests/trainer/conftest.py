from collections.abc import Iterator

import pytest

from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob


@pytest.fixture
def job() -> FakeJob:
    return FakeJob(servers=2)


@pytest.fixture
def session(job: FakeJob) -> Iterator[Session]:
    with job.session() as session:
        yield session
