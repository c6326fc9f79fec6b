"""When a lease without progress is over."""

from typing import Any

from paceline.coordinator.durable.outcomes import TrainerLost
from paceline.coordinator.ledgers.tasks import CEILING_S, FLOOR_S, Deadlines
from paceline.messages.trainer import Beat

FIRST_S = 1800.0


def measuring() -> Deadlines:
    """Where nobody is at its first batch any more."""
    deadlines = Deadlines(FIRST_S)
    for incarnation in range(20):
        deadlines.has_begun(incarnation)
    return deadlines


def test_a_batch_longer_than_the_floor_is_given_more_time_the_next_time() -> None:
    deadlines = measuring()
    deadlines.start(1, 100, now=0.0)
    assert deadlines.expired(FLOOR_S) == [1]
    deadlines.pause(1)
    deadlines.start(2, 100, now=FLOOR_S)
    assert deadlines.expired(2.5 * FLOOR_S) == []
    assert deadlines.expired(3 * FLOOR_S) == [2]


def test_a_first_batch_longer_than_allowed_is_given_more_time_the_next_time() -> None:
    deadlines = Deadlines(10.0)
    deadlines.start(1, 100, now=0.0)
    assert deadlines.expired(10.0) == [1]
    deadlines.forget(1)
    deadlines.start(2, 100, now=10.0)
    assert deadlines.expired(29.0) == []
    assert deadlines.expired(30.0) == [2]
    assert deadlines.first_batch_s == 40.0


def test_nobody_is_given_more_than_the_ceiling() -> None:
    deadlines = measuring()
    now = 0.0
    for incarnation in range(20):
        deadlines.start(incarnation, 10**9, now)
        now += CEILING_S
        assert deadlines.expired(now) == [incarnation]
        deadlines.pause(incarnation)


def test_waiting_stops_the_clock_of_a_lease() -> None:
    deadlines = measuring()
    deadlines.start(1, 100, now=0.0)
    deadlines.pause(1)
    assert deadlines.expired(10 * CEILING_S) == []


def test_batches_that_become_slow_later_have_longer() -> None:
    deadlines, now = measuring(), 0.0
    for seconds in [0.01] * 1000 + [9.0] * 1000:
        deadlines.start(1, 1, now)
        now += seconds
        deadlines.progressed(1, 1, now)
    deadlines.start(1, 1, now)
    assert not deadlines.expired(now + 89.0)  # ten times what a batch takes by now
    assert deadlines.expired(now + 91.0) == [1]


def test_a_later_lease_that_falls_due_first_is_not_overlooked() -> None:
    deadlines = measuring()
    deadlines.start(1, 100, now=0.0)
    assert deadlines.expired(FLOOR_S - 1) == []
    deadlines.pause(1)
    deadlines.start(2, 100, now=1.0)
    assert deadlines.expired(FLOOR_S) == []
    assert deadlines.expired(FLOOR_S + 1) == [2]


def test_who_stops_has_told_how_long_it_took_and_its_clock_stands_still() -> None:
    deadlines, now = measuring(), 0.0
    for _ in range(100):
        deadlines.start(1, 1, now)
        now += 9.0
        deadlines.stopped(1, 1, now)
    assert deadlines.expired(now + 10 * CEILING_S) == []
    deadlines.start(1, 1, now)
    assert not deadlines.expired(now + 89.0)
    assert deadlines.expired(now + 91.0) == [1]


def test_silence_that_is_nobodys_fault_is_added_to_everyones_time() -> None:
    deadlines = measuring()
    deadlines.start(1, 100, now=0.0)
    deadlines.excuse(30.0)
    assert deadlines.expired(FLOOR_S + 29.0) == []
    assert deadlines.expired(FLOOR_S + 30.0) == [1]


def test_the_first_batch_of_a_membership_may_take_longer() -> None:
    deadlines = Deadlines(FIRST_S)
    deadlines.start(1, 100, now=0.0)
    assert deadlines.expired(FIRST_S - 1) == []
    deadlines.progressed(1, 8, FIRST_S - 1)
    deadlines.start(1, 92, now=FIRST_S)
    assert deadlines.expired(FIRST_S + FLOOR_S) == [1], "its second one may not"
    deadlines.forget(1)
    deadlines.start(2, 100, now=2 * FIRST_S)
    assert deadlines.expired(3 * FIRST_S - 1) == [], "another process compiles anew"
    assert deadlines.expired(3 * FIRST_S) == [2]


def test_how_long_first_batches_took_says_nothing_of_others() -> None:
    deadlines, now = Deadlines(FIRST_S), 0.0
    for incarnation in range(40):
        deadlines.start(incarnation, 1, now)
        now += 600.0
        deadlines.progressed(incarnation, 1, now)
        deadlines.start(incarnation, 1, now)
        now += 0.01
        deadlines.stopped(incarnation, 1, now)
    deadlines.start(0, 1, now)
    assert deadlines.expired(now + FLOOR_S) == [0]


def test_a_first_step_of_a_minute_ends_nobody_and_one_beyond_is_named(
    make_job: Any,
) -> None:
    job = make_job(first_batch_s=300.0)
    job.open("trainer-0")
    job.lease("trainer-0")
    for _ in range(299):
        job.wait(1)
        job.get("trainer-0", Beat(**job.who("trainer-0"), clock=0, state="working"))
    assert "trainer-0" in job.state.durable.trainers
    job.wait(2)
    [lost] = [one for one in job.outcomes if isinstance(one, TrainerLost)]
    assert lost.kind == "expired"
    assert "300 s (--first-batch)" in lost.reason
