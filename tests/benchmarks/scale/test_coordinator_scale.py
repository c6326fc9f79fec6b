"""The crowd is led, and what it costs is measured."""

import pytest

from benchmarks.scale.coordinator_queue import QueueFigure, measure_queue
from benchmarks.scale.coordinator_scale import Led, figures_of, measure, ratios_of
from benchmarks.scale.process import Rates


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["coordinator", "echo"])
def test_a_small_crowd_is_led_and_timed(kind: str) -> None:
    rates = measure(kind, 2, trainers=5, times=1, seconds=0.2).rates
    assert rates.per_s[0] > 50
    assert 0 < rates.cpu_us[0] < 1e6 / 50


def test_a_rate_and_a_long_queue_are_held_to_their_goals() -> None:
    rates = {
        name: Led(0.1, 1.0, Rates([per_s], [50.0]))
        for name, per_s in (("echo", 30_000.0), ("ticks", 12_000.0), ("leases", 9_000.0))
    }
    queue = [QueueFigure(1000, 10.0, 0.1, 99), QueueFigure(1_000_000, 12.0, 90.0, 99)]
    found = {
        ratio.goal_name: ratio.verdict for ratio in ratios_of(figures_of(rates, queue))
    }
    assert found == {"ticks": "reached", "leases": "missed", "queue": "reached"}


def test_a_queue_among_few_tasks_and_many_weighs_the_same() -> None:
    few, many = measure_queue(2_000), measure_queue(20_000)
    assert many.cut_bytes <= few.cut_bytes + 16
    assert many.lease_us > 0
