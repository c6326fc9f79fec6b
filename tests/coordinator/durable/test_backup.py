"""Rounds that close without some trainers, and what becomes of whoever is late."""

from typing import Any

import pytest

from paceline.config import Sync
from paceline.coordinator.durable.outcomes import PushLate, RoundCommitted
from paceline.messages.shared import Refusal, Waiting
from paceline.messages.trainer import AskLease, Ticked


@pytest.fixture
def three(make_job: Any) -> Any:
    job = make_job(trainers=3, pace=Sync(backup=1))
    names = ("trainer-0", "trainer-1", "trainer-2")
    job.open(*names)
    tickets = [job.ask(name, AskLease(**job.who(name), stage=0)) for name in names]
    job.serve()
    job.held = {n: job.answers[t].lease for n, t in zip(names, tickets, strict=True)}
    return job


def ask(job: Any, trainer: str, batch: int, number: int) -> int:
    """Tick one prepared batch for a round."""
    ticket: int = job.ask_tick(
        trainer, job.held[trainer], batch, batch, round=number, number=number
    )
    return ticket


def test_a_round_closes_when_all_but_the_backup_have_ticked(three: Any) -> None:
    first = ask(three, "trainer-0", 0, 1)
    assert first not in three.answers
    second = ask(three, "trainer-2", 0, 1)
    [committed] = [o for o in three.outcomes if isinstance(o, RoundCommitted)]
    assert [c.trainer for c in committed.contributions] == ["trainer-0", "trainer-2"]
    assert sum(c.weight for c in committed.contributions) == pytest.approx(1.0)
    assert isinstance(three.answers[first], Ticked)
    assert three.answers[second].late is None


def test_who_comes_later_is_told_so_and_counted_once(three: Any) -> None:
    for trainer in ("trainer-0", "trainer-2"):
        ask(three, trainer, 0, 1)
    late = three.answers[ask(three, "trainer-1", 0, 1)]
    again = three.answers[ask(three, "trainer-1", 0, 1)]
    assert (late.late, late.lease) == (1, None)
    assert again == late
    [counted] = [o for o in three.outcomes if isinstance(o, PushLate)]
    assert (counted.trainer, counted.round, counted.records) == ("trainer-1", 1, 2)
    assert three.state.status().counters["late"] == 1
    assert three.state.status().counters["late_records"] == 2


def test_a_late_push_is_no_progress_of_its_task(three: Any) -> None:
    for trainer in ("trainer-0", "trainer-2"):
        ask(three, trainer, 0, 1)
    before = three.state.status().records
    ask(three, "trainer-1", 0, 1)
    assert three.state.status().records == before
    lease = three.held["trainer-1"]
    three.ask_tick("trainer-1", lease, 0, 1, round=2, number=2)
    ask(three, "trainer-0", 1, 2)
    assert three.state.status().records == before + 4 + 2, "it goes along with the next"


def test_whose_answer_was_lost_is_not_late_however_far_others_have_gone(three: Any) -> None:
    for trainer in ("trainer-0", "trainer-1"):
        ask(three, trainer, 0, 1)
    for number in (2, 3, 4):
        for trainer in ("trainer-0", "trainer-2"):
            batch = number - 1 if trainer == "trainer-0" else number - 2
            ask(three, trainer, batch, number)
    answer = three.answers[ask(three, "trainer-1", 0, 1)]
    assert (type(answer), answer.late) == (Ticked, None)


def test_a_restarted_coordinator_knows_who_has_contributed(three: Any) -> None:
    for trainer in ("trainer-0", "trainer-1"):
        ask(three, trainer, 0, 1)
    three.restart()
    three.serve()
    assert three.answers[ask(three, "trainer-1", 0, 1)].late is None
    assert three.answers[ask(three, "trainer-2", 0, 1)].late == 1


def test_the_last_trainer_with_work_is_a_round_by_itself(three: Any) -> None:
    for trainer in ("trainer-0", "trainer-2"):
        three.lose(trainer)
    answer = three.answers[ask(three, "trainer-1", 0, 1)]
    assert (type(answer), answer.late) == (Ticked, None)


def test_without_backup_a_late_tick_is_refused(make_job: Any) -> None:
    job = make_job(trainers=1)
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    assert isinstance(job.tick("trainer-0", lease, 0, 0, round=1), Ticked)
    refusal = job.tick("trainer-0", lease, 1, 1, round=1, number=7)
    assert isinstance(refusal, Refusal)
    assert not isinstance(refusal, Waiting)
