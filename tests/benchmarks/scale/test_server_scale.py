"""A crowd is served, and what it costs is measured."""

import pytest

from benchmarks.scale.server_scale import (
    ASKS_UNREAD,
    LARGE_ELEMENTS,
    figures_of,
    measure,
    ratios_of,
)


@pytest.mark.slow
def test_a_small_crowd_is_served_and_timed() -> None:
    found = measure(trainers=20, times=1, seconds=0.2)
    assert found.push.per_s[0] > 0
    assert found.pull.per_s[0] > 0
    crowd, slow = ratios_of(figures_of(found), trainers=20)
    assert (crowd.found, crowd.verdict) == ("20 trainers", "missed")
    assert slow.what == "growth"


@pytest.mark.slow
def test_a_slow_reader_costs_the_server_far_less_than_it_asks_for() -> None:
    # Half of it, since busy cores add what the allocator has not given back yet.
    [grown_mib] = measure(trainers=2, times=1, seconds=0.05).slow_grown_mib
    assert grown_mib < ASKS_UNREAD * LARGE_ELEMENTS * 4 / 2**20 / 2
