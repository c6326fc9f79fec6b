"""The crowd is led, and what it costs is measured."""

import pytest

from benchmarks.coordinator_queue import measure_queue
from benchmarks.coordinator_scale import measure, report


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["coordinator", "echo"])
def test_a_small_crowd_is_led_and_timed(kind: str) -> None:
    rates = measure(kind, 2, trainers=5, times=1, seconds=0.2)
    assert rates.per_s[0] > 50
    assert 0 < rates.cpu_us[0] < 1e6 / 50
    assert kind in report({kind: rates}, [])


def test_a_queue_among_few_tasks_and_many_weighs_the_same() -> None:
    few, many = measure_queue(2_000), measure_queue(20_000)
    assert many.cut_bytes <= few.cut_bytes + 16
    assert many.lease_us > 0
