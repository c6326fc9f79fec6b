"""Open rounds that wait for each other, and those that do not."""

from typing import Any

import pytest

from paceline.config import Async, DiLoCo
from paceline.coordinator.decisions.rounds import OpenRound, Waiter, decide_standstill
from paceline.messages.shared import Refusal
from paceline.messages.trainer import AskLease, Ticked
from tests.coordinator.conftest import Job

A, B, C = "trainer-0", "trainer-1", "trainer-2"


def test_two_that_wait_for_each_other_are_both_named() -> None:
    found = decide_standstill({0: OpenRound({A}), 1: OpenRound({B})}, {A, B})
    assert sorted(found) == [Waiter(A, 0, 1), Waiter(B, 1, 0)]


def test_a_circle_among_three_is_as_short_as_it_gets() -> None:
    rounds = {0: OpenRound({A, B}), 1: OpenRound({B, C}), 2: OpenRound({C, A})}
    found = decide_standstill(rounds, {A, B, C})
    assert found == [Waiter(C, 1, 0), Waiter(A, 0, 1)]
    rounds = {0: OpenRound({A}), 1: OpenRound({B}), 2: OpenRound({C})}
    found = decide_standstill(rounds, {A, B, C})
    assert found == [Waiter(B, 1, 0), Waiter(A, 0, 1)]


@pytest.mark.parametrize(
    ("rounds", "trainers"),
    [
        ({0: OpenRound({A})}, {A, B}),  # one part: the others come
        ({0: OpenRound({A})}, {A}),  # about to close
        ({0: OpenRound({A, B}), 1: OpenRound({B})}, {A, B}),  # part 0 is whole
        ({0: OpenRound({A, B}), 1: OpenRound({A})}, {A, B, C}),  # C works
        ({0: OpenRound({A}), 1: OpenRound({B})}, {A, B, C}),  # C works, and may leave
        ({0: OpenRound({A, C}, 1), 1: OpenRound({B}, 1)}, {A, B, C}),  # does without B
        ({}, {A, B}),
    ],
)
def test_whoever_may_move_is_waited_for(
    rounds: dict[int, OpenRound], trainers: set[str]
) -> None:
    assert decide_standstill(rounds, trainers) == []


def test_a_spare_trainer_does_not_help_where_two_are_missing() -> None:
    rounds = {0: OpenRound({A}, 1), 1: OpenRound({B, C}, 0)}
    assert decide_standstill(rounds, {A, B, C})


def begun(make_job: Any, **options: Any) -> tuple[Job, Any, Any]:
    job = make_job(trainers=2, parts=2, **options)
    job.open(A, B)
    first = job.ask(A, AskLease(**job.who(A), stage=0))
    second = job.lease(B)
    return job, job.answers[first].lease, second


def come(job: Job, trainer: str, lease: Any, part: int, **more: Any) -> int:
    fields = {"acked": (-1,), "round": 1, "ends_step": False, **more}
    return job.ask_tick(trainer, lease, 0, 0, part=part, **fields)


def test_parts_in_two_orders_are_refused_to_both(make_job: Any) -> None:
    job, one, other = begun(make_job)
    first, second = come(job, A, one, 0), come(job, B, other, 1)
    told = job.answers[first], job.answers[second]
    assert told[0] == told[1]
    assert isinstance(told[0], Refusal)
    assert told[0].kind == "mismatch"
    assert "trainer-0 steps part 0 ('w') before part 1 ('w')" in told[0].text
    assert "trainer-1 steps part 1 ('w') before part 0 ('w')" in told[0].text


def test_who_asks_again_is_refused_as_well(make_job: Any) -> None:
    job, one, other = begun(make_job)
    come(job, A, one, 0)
    job.wait(8.0)  # its question is put off, and not asked again yet
    second = come(job, B, other, 1)
    assert isinstance(job.answers[second], Refusal)
    assert isinstance(job.answers[come(job, A, one, 0)], Refusal)


def test_one_order_goes_on(make_job: Any) -> None:
    job, one, other = begun(make_job)
    for part in (0, 1):
        first, second = come(job, A, one, part), come(job, B, other, part)
        job.serve()
        assert isinstance(job.answers[first], Ticked)
        assert isinstance(job.answers[second], Ticked)


def test_a_death_resolves_it_before_it_is_one(make_job: Any) -> None:
    job, one, _ = begun(make_job)
    first = come(job, A, one, 0)
    job.lose(B)
    job.serve()
    assert isinstance(job.answers[first], Ticked)


def test_a_loss_of_who_worked_tells_those_who_are_left(make_job: Any) -> None:
    job = make_job(trainers=3, parts=2)
    job.open(A, B, C)
    tickets = [job.ask(t, AskLease(**job.who(t), stage=0)) for t in (A, B, C)]
    job.serve()
    one, other, _ = (job.answers[ticket].lease for ticket in tickets)
    first, second = come(job, A, one, 0), come(job, B, other, 1)
    assert first not in job.answers
    job.lose(C)
    assert isinstance(job.answers[first], Refusal)
    assert isinstance(job.answers[second], Refusal)


@pytest.mark.parametrize(
    "pace", [DiLoCo(every=8, fragments=2, overlap=2), DiLoCo(every=4, fragments=2)]
)
def test_fragments_and_who_computes_on_are_not_looked_at(make_job: Any, pace: Any) -> None:
    job, one, other = begun(make_job, pace=pace)
    first, second = come(job, A, one, 0), come(job, B, other, 1)
    assert first not in job.answers
    assert second not in job.answers


def test_a_part_without_rounds_is_no_part_of_it(make_job: Any) -> None:
    job, one, other = begun(make_job, pace=Async())
    for ticket in (
        job.ask_tick(A, one, 0, 0, part=0),
        job.ask_tick(B, other, 0, 0, part=1),
    ):
        assert isinstance(job.answers[ticket], Ticked)
