"""When a lease without progress is over."""

from paceline.coordinator.tasks import CEILING_S, FLOOR_S, Deadlines


def test_a_first_batch_longer_than_the_floor_is_given_more_time_the_next_time() -> None:
    deadlines = Deadlines()
    deadlines.start(1, 100, now=0.0)
    assert deadlines.expired(FLOOR_S) == [1]
    deadlines.pause(1)
    deadlines.start(2, 100, now=FLOOR_S)
    assert deadlines.expired(2.5 * FLOOR_S) == []
    assert deadlines.expired(3 * FLOOR_S) == [2]


def test_nobody_is_given_more_than_the_ceiling() -> None:
    deadlines = Deadlines()
    now = 0.0
    for incarnation in range(20):
        deadlines.start(incarnation, 10**9, now)
        now += CEILING_S
        assert deadlines.expired(now) == [incarnation]
        deadlines.pause(incarnation)


def test_waiting_stops_the_clock_of_a_lease() -> None:
    deadlines = Deadlines()
    deadlines.start(1, 100, now=0.0)
    deadlines.pause(1)
    assert deadlines.expired(10 * CEILING_S) == []


def test_batches_that_become_slow_later_have_longer() -> None:
    deadlines, now = Deadlines(), 0.0
    for seconds in [0.01] * 1000 + [9.0] * 1000:
        deadlines.start(1, 1, now)
        now += seconds
        deadlines.progressed(1, 1, now)
    deadlines.start(1, 1, now)
    assert not deadlines.expired(now + 89.0)  # ten times what a batch takes by now
    assert deadlines.expired(now + 91.0) == [1]


def test_a_later_lease_that_falls_due_first_is_not_overlooked() -> None:
    deadlines = Deadlines()
    deadlines.start(1, 100, now=0.0)
    assert deadlines.expired(FLOOR_S - 1) == []
    deadlines.pause(1)
    deadlines.start(2, 100, now=1.0)
    assert deadlines.expired(FLOOR_S) == []
    assert deadlines.expired(FLOOR_S + 1) == [2]


def test_who_stops_has_told_how_long_it_took_and_its_clock_stands_still() -> None:
    deadlines, now = Deadlines(), 0.0
    for _ in range(100):
        deadlines.start(1, 1, now)
        now += 9.0
        deadlines.stopped(1, 1, now)
    assert deadlines.expired(now + 10 * CEILING_S) == []
    deadlines.start(1, 1, now)
    assert not deadlines.expired(now + 89.0)
    assert deadlines.expired(now + 91.0) == [1]


def test_silence_that_is_nobodys_fault_is_added_to_everyones_time() -> None:
    deadlines = Deadlines()
    deadlines.start(1, 100, now=0.0)
    deadlines.excuse(30.0)
    assert deadlines.expired(FLOOR_S + 29.0) == []
    assert deadlines.expired(FLOOR_S + 30.0) == [1]
