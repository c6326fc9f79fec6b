"""A schedule is what a pace promises: who reads what, and what becomes of it."""

from collections import Counter

import pytest

from benchmarks.pace.dial.schedule import Schedule, forced, schedule
from paceline.config import parse_pace
from paceline.forecast.models import Slow, Straggler
from paceline.forecast.plan import Plan

TRAINERS, STEPS = 3, 12


def plan(pace: str, **changes: object) -> Plan:
    compute = Straggler(0.05, 4, 0.2)
    options = {"trainers": TRAINERS, "steps": STEPS, "compute": compute, **changes}
    return Plan(pace=parse_pace(pace), **options)


def counted(found: Schedule) -> Counter[int]:
    """How often each batch has its effect."""
    return Counter(
        computed.batch
        for update in found.updates
        for one in update.contributions
        for computed in one.computed
    )


@pytest.mark.parametrize(
    "pace", ["sync", "ssp:0", "ssp:2", "async", "async:push=2,pull=4", "local:5"]
)
def test_every_batch_that_is_begun_counts_once(pace: str) -> None:
    found = schedule(plan(pace))
    assert found.batches == TRAINERS * STEPS
    assert counted(found) == Counter(range(found.batches))


def test_in_lockstep_all_compute_on_the_values_of_the_last_round() -> None:
    found = schedule(plan("sync"))
    assert len(found.updates) == STEPS
    for version, update in enumerate(found.updates):
        assert [one.trainer for one in update.contributions] == [0, 1, 2]
        bases = {c.base for one in update.contributions for c in one.computed}
        assert bases == {version}
        assert sum(one.weight for one in update.contributions) == pytest.approx(1)


def test_a_round_that_does_without_one_has_no_batch_of_it() -> None:
    found = schedule(plan("sync:backup=1", compute=Slow(0.05, 4, 1)))
    first = found.updates[0]
    assert [one.trainer for one in first.contributions] == [1, 2]
    assert sum(counted(found).values()) < found.batches
    for version, update in enumerate(found.updates):
        assert {c.base for one in update.contributions for c in one.computed} <= {version}


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_what_is_read_lacks_no_step_beyond_the_bound(staleness: int) -> None:
    found = schedule(plan(f"ssp:{staleness}", compute=Slow(0.05, 4, 1)))
    of = [update.contributions[0] for update in found.updates]
    done: Counter[int] = Counter()
    for one in of:
        [(_, base)] = one.computed
        clock = done[one.trainer]
        read = Counter(other.trainer for other in of[:base])
        assert read[one.trainer] == clock, "a read lacks an own step"
        # Behind the end of a trainer's work nobody waits for it.
        others = [t for t in range(TRAINERS) if read[t] < STEPS - 1]
        assert min(read[t] for t in others or [one.trainer]) >= clock - staleness
        done[one.trainer] += 1


def test_a_lone_trainer_is_the_plain_loop() -> None:
    found = schedule(plan("async", trainers=1))
    assert [update.contributions[0].computed for update in found.updates] == [
        ((n, n),) for n in range(STEPS)
    ]


def test_local_steps_begin_with_the_values_of_their_round() -> None:
    found = schedule(plan("local:4"))
    for version, update in enumerate(found.updates):
        for one in update.contributions:
            assert [c.base for c in one.computed] == [version] * 4


def test_time_goes_on_and_the_same_plan_has_the_same_schedule() -> None:
    found = schedule(plan("async"))
    moments = [update.at_s for update in found.updates]
    assert moments == sorted(moments)
    assert moments[0] >= 0.05
    assert schedule(plan("async")) == found
    assert schedule(plan("async", seed=1)) != found


def test_forced_ages_grow_to_what_was_asked_and_stay() -> None:
    found = forced(6, 3)
    ages = [n - u.contributions[0].computed[0].base for n, u in enumerate(found.updates)]
    assert ages == [0, 1, 2, 3, 3, 3]
