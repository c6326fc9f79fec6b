"""Rounds whose values travel between trainers: who is in them, and who is told what."""

from typing import Any

from paceline.config import Async
from paceline.messages.meeting import Exchange, Meet, MeetAgain
from paceline.messages.shared import Lease, Refusal, Waiting
from paceline.messages.trainer import Ticked
from tests.coordinator.conftest import Job

BOTH = ("trainer-0", "trainer-1")


def opened(*trainers: str, **options: Any) -> tuple[Job, dict[str, Lease]]:
    """A job whose trainers all have a lease."""
    job = Job(trainers=len(trainers), **options)
    job.open(*trainers)
    return job, leases_of(job, *trainers)


def leases_of(job: Job, *trainers: str) -> dict[str, Lease]:
    for trainer in trainers:
        job.lease(trainer)
    return {t: job.lease(t) for t in trainers}


def meet(job: Job, trainer: str, number: int = 1, **more: Any) -> int:
    fields = {"part": 0, "round": 1, "records": 2, "what": "sum", "address": trainer}
    return job.ask(trainer, Meet(**job.who(trainer), number=number, **{**fields, **more}))


def tick(job: Job, trainer: str, lease: Lease, exchange: int, **more: Any) -> int:
    fields = {"round": 1, "exchange": exchange, "number": 1}
    return job.ask_tick(trainer, lease, 0, 0, **{**fields, **more})


def exchange_of(job: Job, *tickets: int) -> Exchange:
    found = [job.answers.get(ticket) for ticket in tickets]
    assert all(isinstance(one, Exchange) for one in found), found
    assert len({str(one) for one in found}) == 1
    assert isinstance(found[0], Exchange)
    return found[0]


def test_all_with_work_are_told_the_same_exchange_in_one_order() -> None:
    job, _ = opened(*BOTH)
    first = meet(job, "trainer-1", number=4)
    assert first not in job.answers
    exchange = exchange_of(job, first, meet(job, "trainer-0"))
    assert [(m.trainer, m.number, m.address) for m in exchange.members] == [
        ("trainer-0", 1, "trainer-0"),
        ("trainer-1", 4, "trainer-1"),
    ]


def test_a_round_closes_when_all_of_one_exchange_have_ticked() -> None:
    job, leases = opened(*BOTH)
    exchange = exchange_of(job, meet(job, "trainer-0"), meet(job, "trainer-1"))
    first = tick(job, "trainer-0", leases["trainer-0"], exchange.name)
    assert first not in job.answers
    second = tick(job, "trainer-1", leases["trainer-1"], exchange.name)
    assert all(isinstance(job.answers[one], Ticked) for one in (first, second))
    assert job.state.durable.parts[0].round == 1


def test_who_ticked_with_somebody_lost_meets_again_with_those_left() -> None:
    job, leases = opened(*BOTH, "trainer-2")
    met = [meet(job, trainer) for trainer in leases]
    old = exchange_of(job, *met)
    ticked = tick(job, "trainer-0", leases["trainer-0"], old.name)
    job.lose("trainer-2")
    assert isinstance(job.answers[ticked], MeetAgain)
    new = exchange_of(job, meet(job, "trainer-0"), meet(job, "trainer-1"))
    assert new.name != old.name
    assert [member.trainer for member in new.members] == list(BOTH)
    late = tick(job, "trainer-1", leases["trainer-1"], old.name)
    first = tick(job, "trainer-0", leases["trainer-0"], new.name)
    assert isinstance(job.answers[late], MeetAgain)
    assert first not in job.answers
    tick(job, "trainer-1", leases["trainer-1"], new.name)
    assert isinstance(job.answers[first], Ticked)


def test_nobody_enters_while_an_exchange_is_under_way() -> None:
    job, leases = opened(*BOTH)
    job.open("trainer-2")
    exchange = exchange_of(job, meet(job, "trainer-0"), meet(job, "trainer-1"))
    assert job.lease("trainer-2") is None
    for trainer in BOTH:
        tick(job, trainer, leases[trainer], exchange.name)
    job.wait(0.5)
    assert job.lease("trainer-2") is not None


def test_a_coordinator_that_restarts_names_the_same_exchange_the_same() -> None:
    job, leases = opened(*BOTH)
    exchange = exchange_of(job, meet(job, "trainer-0"), meet(job, "trainer-1"))
    job.restart()
    job.serve()
    ticked = tick(job, "trainer-0", leases["trainer-0"], exchange.name)
    met = meet(job, "trainer-1")
    assert isinstance(job.answers[ticked], MeetAgain)
    new = exchange_of(job, meet(job, "trainer-0"), met)
    assert new.name == exchange.name


def test_a_coordinator_that_restarts_closes_the_round_of_all_who_tick() -> None:
    job, leases = opened(*BOTH)
    exchange = exchange_of(job, meet(job, "trainer-0"), meet(job, "trainer-1"))
    job.restart()
    job.serve()
    ticked = [tick(job, t, leases[t], exchange.name) for t in BOTH]
    assert all(isinstance(job.answers[one], Ticked) for one in ticked)


def test_different_calls_of_one_round_are_refused_and_named() -> None:
    job, _ = opened(*BOTH)
    tickets = [meet(job, "trainer-0"), meet(job, "trainer-1", what="max")]
    for ticket in tickets:
        refusal = job.answers[ticket]
        assert isinstance(refusal, Refusal)
        assert refusal.kind == "mismatch"
        assert "trainer-0 came to the round with sum, trainer-1 with max" in refusal.text


def test_a_batch_that_ends_without_the_call_is_refused_and_named() -> None:
    job, leases = opened(*BOTH)
    tick(job, "trainer-1", leases["trainer-1"], 0)
    refusal = job.answers[meet(job, "trainer-0")]
    assert isinstance(refusal, Refusal)
    assert "trainer-1 has ended its batch without the call" in refusal.text


def test_values_are_exchanged_in_rounds_only() -> None:
    job, _ = opened(*BOTH, pace=Async())
    refusal = job.answers[meet(job, "trainer-0")]
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "mismatch"


def test_a_meeting_waits_with_a_reason() -> None:
    job, _ = opened(*BOTH)
    ticket = meet(job, "trainer-0")
    job.wait(1.5)
    answer = job.answers[ticket]
    assert isinstance(answer, Waiting)
    assert answer.wait.reason == "round 1 waits for trainer-1, to exchange values"
