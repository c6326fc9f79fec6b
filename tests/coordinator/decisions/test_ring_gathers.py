"""A rotation begins with all who are on their way to it, or soon without them."""

from typing import Any

import pytest

from paceline.config import Async
from paceline.coordinator.decisions.leases import GATHER_S
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import Lease, StageSpec, Waiting
from paceline.messages.trainer import AskLease, BeginStage

PLAIN = StageSpec(0, 20, 2, 10, 1, True, 0, "data")
CELLS = RotationSpec(0, 2, 4, (3,) * 8, 2)
RING = StageSpec(1, 24, 3, 3, 2, True, 5, "data", rotation=CELLS)


@pytest.fixture
def job(make_job: Any) -> Any:
    """Two trainers behind a loop that is over."""
    job = make_job(pace=Async(), trainers=2, is_checked=False)
    job.open("trainer-0", "trainer-1", stage=PLAIN)
    job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0, held=()))
    job.lease("trainer-1")
    while job.state.durable.queue.stage == 0:
        for name in ("trainer-0", "trainer-1"):
            lease = job.lease(name)
            if isinstance(lease, Lease):
                job.finish(name, lease)
        job.wait(0.25)
    return job


def begin(job: Any, name: str) -> int:
    """Come to the rotation: the ticket of the question for a cell."""
    job.get(name, BeginStage(**job.who(name), spec=RING))
    return int(job.ask(name, AskLease(**job.who(name), stage=1, held=())))


def test_the_first_cell_waits_for_who_comes_a_moment_later(job: Any) -> None:
    first = begin(job, "trainer-0")
    job.wait(GATHER_S / 2)
    assert not isinstance(job.answers.get(first), Lease)
    assert not job.state.durable.queue.pending
    second = begin(job, "trainer-1")
    job.serve()
    parts = {CELLS.cell_of(job.answers[t].lease.key.task)[0] for t in (first, second)}
    assert parts == {0, 1}


def test_who_does_not_come_is_not_waited_for_long(job: Any) -> None:
    ticket = begin(job, "trainer-0")
    job.wait(GATHER_S + 0.25)
    answer = job.answers.get(ticket)
    if isinstance(answer, Waiting):
        assert "trainer-1" in answer.wait.reason
        answer = job.answers[
            job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=1))
        ]
    assert isinstance(answer.lease, Lease)
