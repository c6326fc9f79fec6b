import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import SSP, Async, DiLoCo, Guards, Pace, Sync
from paceline.pace.guards import (
    age_range,
    bounds_ages,
    compensation_of,
    is_too_old,
    most_norm,
    rate_of,
    trains_old_again,
)

BARE: list[Pace] = [Async(), SSP(staleness=2), Sync(), DiLoCo(every=5)]


@pytest.mark.parametrize("pace", BARE)
def test_without_guards_nothing_is_changed_and_nothing_refused(pace: Pace) -> None:
    assert rate_of(pace, age=1000, version=0) == 1.0
    assert not bounds_ages(pace)
    assert not is_too_old(pace, 10**9)
    assert not trains_old_again(pace)
    assert compensation_of(pace) is None
    assert most_norm(pace, 1.0) is None


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 2.0]))
def test_a_step_is_shorter_by_a_power_of_its_age(age: int, power: float) -> None:
    pace = Async(guards=Guards(scale=power))
    assert rate_of(pace, age=age, version=7) == 1.0 / max(1, age) ** power


def test_a_step_of_age_0_or_1_is_whole() -> None:
    pace = Async(guards=Guards(scale=1))
    assert [rate_of(pace, age=age, version=0) for age in (0, 1)] == [1.0, 1.0]


@pytest.mark.parametrize("make", [Async, Sync])
def test_the_warm_up_counts_updates_of_the_part_in_every_pace(make: type) -> None:
    pace = make(guards=Guards(warmup=4))
    rates = [rate_of(pace, age=0, version=version) for version in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_both_shorten_a_step() -> None:
    pace = Async(guards=Guards(scale=1, warmup=10))
    assert rate_of(pace, age=4, version=4) == 0.25 * 0.5


def test_what_is_as_old_as_the_bound_is_applied() -> None:
    pace = Async(guards=Guards(drop=3, old="again"))
    assert bounds_ages(pace)
    assert [is_too_old(pace, age) for age in (0, 3, 4)] == [False, False, True]
    assert trains_old_again(pace)
    assert not trains_old_again(Async(guards=Guards(drop=3)))


def test_what_is_too_wild_is_a_multiple_of_what_is_usual() -> None:
    pace = Sync(guards=Guards(norm=6))
    assert most_norm(pace, 2.0) == 12.0
    assert most_norm(pace, None) is None


def test_ages_are_counted_in_few_lines_whatever_they_are() -> None:
    found = [age_range(age) for age in (0, 1, 2, 3, 4, 7, 8, 4095, 4096, 10**9)]
    assert found == [
        "0", "1", "2-3", "2-3", "4-7", "4-7", "8-15", "2048-4095", "4096-", "4096-",
    ]  # fmt: skip
    assert len({age_range(age) for age in range(10_000)}) == 14
