"""Who asks for work with batches that wait for their step is told at once to push them."""

from typing import Any

import pytest

from paceline.config import Async
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, Granted
from paceline.parking import PARK_S
from tests.coordinator.conftest import STAGE

TRAINER, OTHER = "trainer-0", "trainer-1"


@pytest.fixture
def job(make_job: Any) -> Any:
    """All tasks of the epoch are leased, and no batch is acknowledged."""
    job = make_job(trainers=2, pace=Async())
    job.open(TRAINER, OTHER)
    for trainer in (TRAINER, OTHER):
        job.ask(trainer, AskLease(**job.who(trainer), stage=0))
    job.serve()
    for number in range(STAGE.num_tasks() - 2):
        asker = (TRAINER, OTHER)[number % 2]
        assert isinstance(job.answers[ask(job, asker)], Granted)
    return job


def ask(job: Any, trainer: str = TRAINER, *, is_open: bool = True) -> int:
    held = job.state.durable.queue.held_by(job.trainers[trainer]).values()
    tokens = tuple((record.lease.token, -1) for record in held)
    asked = AskLease(**job.who(trainer), stage=0, held=tokens, is_open=is_open)
    return int(job.ask(trainer, asked))


def test_where_no_task_is_left_it_is_told_at_once(job: Any) -> None:
    answer = job.answers[ask(job)]

    assert isinstance(answer, Waiting)
    assert answer.wait.reason == f"the epoch's last tasks are with {TRAINER}, {OTHER}"


def test_who_has_pushed_all_waits_for_its_time(job: Any) -> None:
    ask(job)
    ticket = ask(job, is_open=False)
    assert ticket not in job.answers

    job.wait(PARK_S)

    assert job.answers[ticket].wait.since_s == pytest.approx(PARK_S)


def test_who_still_asks_with_open_windows_waits_after_a_while(job: Any) -> None:
    ask(job)
    job.wait(0.9 * PARK_S)
    assert isinstance(job.answers[ask(job)], Waiting)
    job.wait(0.2 * PARK_S)
    ticket = ask(job)
    assert ticket not in job.answers

    job.wait(PARK_S)

    assert isinstance(job.answers[ticket], Waiting)


def test_a_lost_trainers_tasks_are_waited_for(job: Any) -> None:
    """Servers are asked for its marks; what it has not pushed is another's then."""
    job.lose(OTHER)
    ticket = ask(job)
    assert ticket not in job.answers

    job.serve()

    assert isinstance(job.answers[ticket], Granted)
