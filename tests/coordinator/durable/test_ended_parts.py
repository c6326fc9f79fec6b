"""A part that a script has unshared: its values stay, and nobody waits for it."""

from typing import Any

import pytest

from paceline.config import Async, Sync
from paceline.coordinator.durable.outcomes import PartEnded
from paceline.messages.server import EndPart, Orders, Restore
from paceline.messages.shared import Done, Lease, Refusal
from paceline.messages.trainer import UnsharePart
from paceline.messages.watching import ChangePace
from tests.coordinator.conftest import Job


@pytest.fixture
def job(make_job: Any) -> Job:
    """Two parts, of which the first has ended."""
    job: Job = make_job(parts=2)
    job.open("trainer-0")
    end(job)
    return job


def end(job: Job) -> None:
    assert job.get("trainer-0", UnsharePart(**job.who("trainer-0"), part=0)) == Done()
    job.serve()


def seen(job: Job, kind: type) -> list[Any]:
    return [order for order in job.servers[1].seen if isinstance(order, kind)]


def test_it_is_journalled_once_and_every_server_told_until_it_says_so(job: Job) -> None:
    end(job)
    job.restart()
    job.serve()
    assert [one for one in job.outcomes if isinstance(one, PartEnded)] == [PartEnded(0)]
    assert seen(job, EndPart) == [EndPart(part=0)]


def test_a_server_that_waits_for_orders_is_told_at_once(make_job: Any) -> None:
    job: Job = make_job(parts=2)
    job.open("trainer-0")
    waiting = job.ask("server-1", job.servers[1].report())
    assert waiting not in job.answers
    job.ask("trainer-0", UnsharePart(**job.who("trainer-0"), part=0))
    told = job.answers[waiting]
    assert isinstance(told, Orders)
    assert told.orders == (EndPart(part=0),)


def test_no_round_of_it_is_begun_and_none_is_waited_for(job: Job) -> None:
    lease = job.lease("trainer-0")
    assert isinstance(lease, Lease)
    assert lease.rounds == {1: 1}
    job.tick("trainer-0", lease, 0, 4, part=1, round=1)
    assert job.state.status().tasks_done == 1


def test_who_still_trains_it_is_refused_with_the_reason(job: Job) -> None:
    lease = job.lease("trainer-0")
    refused = job.tick("trainer-0", lease, 0, 0, part=0, round=1)
    assert isinstance(refused, Refusal)
    assert refused.kind == "mismatch"
    assert "session.unshare for the model of part 0, which this one still" in refused.text


def test_who_returns_to_a_cut_keeps_no_state_of_its_optimizer(job: Job) -> None:
    assert isinstance(job.lease("trainer-0"), Lease), "behind the first cut"
    job.servers[0].incarnation = 0  # a new process: all return
    job.serve()
    order = seen(job, Restore)[-1]
    assert [plan.has_ended for plan in order.plans] == [True, False]
    assert order.without_state == (0,)
    assert job.state.durable.trained().keys() == {1}


def test_a_change_of_pace_is_none_of_its(job: Job) -> None:
    assert job.state.status().pace == str(Sync())
    job.lease("trainer-0")
    refused = job.get("operator", ChangePace(pace=Async(), part="0"))
    assert "there is no part '0'; the job has 1 (w)" in refused.text
