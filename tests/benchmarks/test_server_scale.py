"""A crowd is served, and what it costs is measured."""

import pytest

from benchmarks.server_scale import MOST_GROWN_MIB, measure, report


@pytest.mark.slow
def test_a_small_crowd_is_served_and_timed() -> None:
    found = measure(trainers=20, times=1, seconds=0.2)
    assert found.push.per_s[0] > 0
    assert found.pull.per_s[0] > 0
    assert found.slow_grown_mib <= MOST_GROWN_MIB
    assert "growth by a slow reader" in report(found)
