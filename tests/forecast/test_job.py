"""A forecast is what arithmetic says where arithmetic can, and the same every time."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paceline.config import SSP, Async, DiLoCo, Pace, Sync
from paceline.errors import UsageError
from paceline.forecast import job
from paceline.forecast.job import forecast
from paceline.forecast.models import (
    Compute,
    Deaths,
    Fixed,
    Lognormal,
    Network,
    Slow,
    Straggler,
    draw_compute,
)
from paceline.forecast.plan import Plan

FREE = Network(0.0, 1e30)
PACES = [Sync(), SSP(staleness=2), Async(), Async(push_every=4, pull_every=8)]


def plan_of_nothing_but_computing(**fields: object) -> Plan:
    """Messages take no time and cost nothing."""
    return Plan(network=FREE, server_s=0.0, coordinator_s=0.0, cut_every_s=0, **fields)  # type: ignore[arg-type]


computing = st.one_of(
    st.builds(Fixed, st.floats(0.01, 1)),
    st.builds(Lognormal, st.floats(0.01, 1), st.floats(0, 1)),
    st.builds(Straggler, st.floats(0.01, 1), st.floats(1, 10), st.floats(0, 1)),
    st.builds(Slow, st.floats(0.01, 1), st.floats(1, 10), st.integers(0, 3)),
)


@settings(max_examples=25, deadline=None)
@given(computing, st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**31))
def test_a_round_takes_as_long_as_its_slowest_trainer(
    compute: Compute, trainers: int, steps: int, seed: int
) -> None:
    plan = plan_of_nothing_but_computing(
        trainers=trainers, steps=steps, compute=compute, seed=seed
    )
    draws = [
        draw_compute(compute, index, Random(f"{seed} compute {index}"))
        for index in range(trainers)
    ]
    rounds = [max([draw() for draw in draws]) for _ in range(steps)]
    found = forecast(plan)
    assert found.seconds == pytest.approx(sum(rounds), rel=1e-9)
    assert found.updates == steps


@settings(max_examples=25, deadline=None)
@given(computing, st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**31))
def test_free_runners_compute_all_the_time(
    compute: Compute, trainers: int, tens: int, seed: int
) -> None:
    found = forecast(
        plan_of_nothing_but_computing(
            trainers=trainers, steps=10 * tens, compute=compute, seed=seed, pace=Async()
        )
    )
    assert found.spells["computing"] == pytest.approx(1.0)
    assert found.step_s * found.records_per_second == pytest.approx(trainers, rel=0.5)


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_every_batch_counts_once(pace: Pace) -> None:
    found = forecast(Plan(trainers=3, servers=2, steps=20, batch_size=32, pace=pace))
    assert found.batches == 3 * 20
    assert found.records == 3 * 20 * 32
    assert found.useful == 1.0


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_the_same_plan_has_the_same_forecast(pace: Pace) -> None:
    plan = Plan(
        trainers=4,
        servers=3,
        steps=60,
        pace=pace,
        parameter_bytes=10**6,
        deaths=Deaths(10.0, 0.5),
        cut_every_s=2.0,
    )
    found = forecast(plan)
    assert found == forecast(plan)
    assert sum(found.deaths.values()) > 0


def test_another_seed_has_another_forecast() -> None:
    one, other = (forecast(Plan(trainers=4, seed=seed)) for seed in (0, 1))
    assert one.seconds != other.seconds


def test_rounds_are_computed_on_the_newest_values() -> None:
    found = forecast(Plan(trainers=4, pace=Sync()))
    assert found.ages.most == 0
    assert found.gap_most <= 1


def test_a_free_runner_misses_what_the_others_push_meanwhile() -> None:
    found = forecast(Plan(trainers=8, pace=Async(), compute=Fixed(0.1)))
    assert found.ages.mean == pytest.approx(7, abs=1)


@pytest.mark.parametrize("staleness", [0, 2, 5])
def test_bounded_clocks_stay_as_near_as_their_bound(staleness: int) -> None:
    found = forecast(
        Plan(trainers=4, steps=40, compute=Slow(0.1, 4, 1), pace=SSP(staleness=staleness))
    )
    assert found.gap_most == staleness + 1
    assert found.records_per_second < 15  # four of the slow one; free runners have 32.5


def test_servers_share_bytes_and_updates() -> None:
    base = Plan(trainers=8, pace=Async(), compute=Fixed(0.01), parameter_bytes=4 * 10**6)
    one, four = (forecast(replace(base, servers=servers)) for servers in (1, 4))
    assert one.server.inward.busy > 2 * four.server.inward.busy
    assert four.records_per_second > 1.5 * one.records_per_second


def test_a_coordinator_has_its_limit() -> None:
    found = forecast(
        Plan(trainers=50, compute=Fixed(0.01), coordinator_s=1e-3, pace=Sync(), steps=20)
    )
    assert found.coordinator.busy > 0.8
    assert found.records_per_second < 1000


def test_a_slow_trainer_holds_rounds_and_not_free_runners() -> None:
    slow = Slow(0.1, 4, 1)
    sync = forecast(Plan(trainers=4, compute=slow, pace=Sync()))
    free = forecast(Plan(trainers=4, compute=slow, pace=Async()))
    assert sync.records_per_second == pytest.approx(10, rel=0.05)
    assert free.records_per_second == pytest.approx(32.5, rel=0.05)
    assert sync.spells["coordinator"] > 0.5 > free.spells["coordinator"]


def test_a_job_that_never_ends_is_refused_with_what_became_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job, "MOST_REPEATED", 5)
    monkeypatch.setattr(job, "FEWEST_REPEATED", 5)
    # A lease without progress lasts an hour at most.
    with pytest.raises(UsageError, match="all was computed 5 times"):
        forecast(Plan(trainers=1, steps=1, compute=Fixed(4000.0)))


def test_a_batch_that_takes_longer_than_a_first_lease_is_computed_in_the_end() -> None:
    found = forecast(Plan(trainers=2, steps=3, compute=Fixed(100.0)))
    assert found.records == 6


def test_what_dies_is_computed_again_and_counts_once() -> None:
    found = forecast(
        Plan(
            trainers=10,
            servers=5,
            steps=200,
            pace=Async(),
            deaths=Deaths(15.0, 0.5),
            cut_every_s=5.0,
            write_s=0.2,
        )
    )
    assert found.deaths["trainer"] > 0
    assert found.deaths["server"] > 0
    assert found.records == 2000
    assert found.batches > 2000
    assert found.useful == pytest.approx(2000 / found.batches)


def test_rounds_that_take_turns_are_not_forecast_and_it_says_so() -> None:
    with pytest.raises(UsageError, match="forecast it without fragments and overlap"):
        Plan(pace=DiLoCo(every=50, fragments=4, overlap=5))
