"""How long batches take to read and compute, without waiting for anybody."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.timing import ManualClock
from paceline.trainer.client.stopwatch import (
    COMPUTE,
    MOST_KEPT,
    OTHERS,
    QUANTILES,
    Stopwatch,
    quantiles,
)


def timed(durations: list[float]) -> Stopwatch:
    clock = ManualClock()
    stopwatch = Stopwatch(clock)
    for seconds in durations:
        stopwatch.begin()
        clock.advance(seconds)
        stopwatch.end()
    return stopwatch


@given(st.lists(st.floats(0, 100), min_size=1, max_size=99))
def test_what_is_told_lies_between_the_least_and_the_most(durations: list[float]) -> None:
    told = timed(durations).take()
    assert told is not None
    assert told.batches == len(durations)
    assert len(told.seconds) == QUANTILES
    assert list(told.seconds) == sorted(told.seconds)
    assert abs(told.seconds[0] - min(durations)) < 1e-5
    assert abs(told.seconds[-1] - max(durations)) < 1e-5
    assert abs(told.mean_s - sum(durations) / len(durations)) < 1e-5


@given(st.lists(st.floats(0, 100), min_size=1, max_size=99))
def test_quantiles_are_those_of_numpy(numbers: list[float]) -> None:
    expected = np.quantile(numbers, np.linspace(0, 1, QUANTILES))
    assert np.allclose(quantiles(numbers), expected, rtol=0, atol=2e-6)


def test_waiting_for_others_does_not_count() -> None:
    clock = ManualClock()
    stopwatch = Stopwatch(clock)
    stopwatch.begin()
    clock.advance(5.0)
    stopwatch.waited_s += 4.0
    stopwatch.end()
    told = stopwatch.take()
    assert told is not None
    assert told.seconds == (1.0,) * QUANTILES


def test_a_batch_is_told_once() -> None:
    stopwatch = timed([1.0])
    assert stopwatch.take() is not None
    assert stopwatch.take() is None


def test_what_ends_without_a_beginning_is_no_batch() -> None:
    stopwatch = Stopwatch(ManualClock())
    stopwatch.end()
    assert stopwatch.take() is None


def test_of_many_batches_some_are_kept_and_all_are_counted() -> None:
    durations = [float(n) for n in range(10 * MOST_KEPT)]
    told = timed(durations).take()
    assert told is not None
    assert told.batches == len(durations)
    assert abs(told.seconds[QUANTILES // 2] - 5 * MOST_KEPT) < 0.05 * MOST_KEPT
    assert told.mean_s == (10 * MOST_KEPT - 1) / 2


def test_who_waits_outside_of_questions_computes_no_longer_than_it_does() -> None:
    clock = ManualClock()
    stopwatch = Stopwatch(clock)
    stopwatch.begin()
    stopwatch.has_read()
    clock.advance(1.0)
    with stopwatch.waiting():
        clock.advance(3.0)
    clock.advance(0.5)
    stopwatch.end()

    told, spent = stopwatch.take(), stopwatch.spent()
    assert told is not None
    assert told.mean_s == 1.5
    assert (spent[COMPUTE], spent[OTHERS]) == (1.5, 3.0)
