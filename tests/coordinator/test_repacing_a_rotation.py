"""The pace of a table whose blocks go round changes to none of rounds."""

from typing import Any

import pytest

from paceline.config import SSP, Async, Sync
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import Refusal, StageSpec
from paceline.messages.watching import ChangePace

CELLS = RotationSpec(0, 2, 4, (3,) * 8, 2)
STAGE = StageSpec(0, 24, 3, 3, 2, True, 5, "data", rotation=CELLS)


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(pace=Async(), trainers=2, is_checked=False)
    job.open("trainer-0", "trainer-1", stage=STAGE)
    return job


def test_rounds_are_refused_by_name(job: Any) -> None:
    refused = job.get("operator", ChangePace(pace=Sync()))
    assert isinstance(refused, Refusal)
    assert "go round in this loop" in refused.text
    assert "use async, or ask again when the loop is over" in refused.text
    assert job.state.status().changing is None


def test_a_bound_is_not(job: Any) -> None:
    ticket = job.ask("operator", ChangePace(pace=SSP(staleness=3)))
    assert not isinstance(job.answers.get(ticket), Refusal)
