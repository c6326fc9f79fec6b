"""Leases for batches ahead of their steps: at once, or said to be in vain at once."""

from typing import Any

import pytest
from msgspec.structs import replace

from paceline.config import Async
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, Granted, HandBack, Stop
from paceline.messages.watching import ChangePace
from tests.coordinator.conftest import STAGE


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    for trainer in ("trainer-0", "trainer-1"):
        job.ask(trainer, AskLease(**job.who(trainer), stage=0))
    job.serve()
    return job


def held_by(job: Any, trainer: str) -> tuple[tuple[int, int], ...]:
    held = job.state.durable.queue.held_by(job.trainers[trainer]).values()
    return tuple((record.lease.token, -1) for record in held)


def ask_ahead(job: Any, trainer: str = "trainer-0") -> int:
    held = held_by(job, trainer)
    assert held
    who = job.who(trainer)
    asked = AskLease(**who, stage=0, held=held, is_open=True, is_ahead=True)
    return int(job.ask(trainer, asked))


def take_all(job: Any) -> Waiting:
    """All tasks, until there are none."""
    while isinstance(answer := job.answers.get(ask_ahead(job)), Granted):
        pass
    assert isinstance(answer, Waiting)
    return answer


def test_where_no_task_is_left_it_is_said_at_once(job: Any) -> None:
    answer = take_all(job)
    assert answer.is_spent
    assert "no task is left" in answer.wait.reason


def test_a_lost_trainers_tasks_are_waited_for(job: Any) -> None:
    """Servers are asked for its marks: until then its tasks are nobody's."""
    take_all(job)
    job.serve()
    job.lose("trainer-1")
    assert job.state.durable.settling, "its marks are here already"
    ticket = ask_ahead(job)
    assert ticket not in job.answers
    job.serve()
    granted = job.answers[ticket]
    assert isinstance(granted, Granted)


def test_a_coordinator_that_has_come_back_waits_for_its_servers(job: Any) -> None:
    job.restart()
    ticket = ask_ahead(job)
    assert ticket not in job.answers
    job.serve()
    assert isinstance(job.answers[ticket], Granted)


def test_a_pause_is_told_at_once(job: Any) -> None:
    """Who holds leases must give them back: it gets none by waiting."""
    job.ask("operator", ChangePace(pace=Async(push_every=2), part=""))
    answer = job.answers[ask_ahead(job)]
    assert (answer.is_spent, answer.pauses) == (True, True)


def test_as_many_leases_as_the_batches_ahead_are_in(make_job: Any) -> None:
    """A task of one batch is a lease: a script that has said 20 gets 20."""
    job = make_job(pace=Async())
    stage = replace(STAGE, records=2 * 30, task_size=2, batch_size=2)
    job.open("trainer-0", stage=stage)
    job.lease("trainer-0")
    for _ in range(20):
        assert isinstance(job.answers.get(ask_ahead(job)), Granted)
    assert len(held_by(job, "trainer-0")) == 21


def test_a_job_that_stops_lends_nothing_ahead(job: Any) -> None:
    job.get("trainer-1", Stop(**job.who("trainer-1"), reason="good enough"))
    answer = job.answers[ask_ahead(job)]
    assert answer.is_spent
    assert "good enough" in answer.wait.reason


def test_what_is_handed_back_comes_ahead(job: Any) -> None:
    take_all(job)
    tokens = [token for token, _ in held_by(job, "trainer-1")]
    back = HandBack(**job.who("trainer-1"), tokens=tuple(tokens), acked=(-1,))
    job.get("trainer-1", back)
    assert isinstance(job.answers[ask_ahead(job)], Granted)
