"""A crowd is served, and what it costs is measured."""

import pytest

from benchmarks.scale.server_scale import figures_of, measure, ratios_of


@pytest.mark.slow
def test_a_small_crowd_is_served_and_timed() -> None:
    found = measure(trainers=20, times=1, seconds=0.2)
    assert found.push.per_s[0] > 0
    assert found.pull.per_s[0] > 0
    crowd, slow = ratios_of(figures_of(found), trainers=20)
    assert (crowd.found, crowd.verdict) == ("20 trainers", "missed")
    assert slow.verdict == "reached"
