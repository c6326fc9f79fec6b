"""When a curve has reached its target, and what is told of runs that did or did not."""

import pytest

from benchmarks.tables.topics.compare import figures, until
from benchmarks.tables.topics.job import Seen


def seen(logs: list[float], seconds: list[float]) -> Seen:
    epochs = [10 * (number + 1) for number in range(len(logs))]
    return Seen(
        epochs=epochs, seconds=seconds, log_likelihood=logs, kernel_s=1.0, cpu_s=1.0
    )


def test_between_two_looks_a_curve_is_a_straight_line() -> None:
    assert until(-7.0, [-9.0, -8.0, -6.0], [1.0, 2.0, 4.0]) == pytest.approx(3.0)


def test_a_target_reached_at_the_first_look_is_reached_there() -> None:
    assert until(-9.5, [-9.0, -8.0], [1.0, 2.0]) == 1.0


def test_a_target_that_is_not_reached_has_no_time() -> None:
    assert until(-5.0, [-9.0, -8.0], [1.0, 2.0]) is None


def test_runs_that_did_not_get_there_are_counted_and_left_out() -> None:
    runs = [seen([-9.0, -7.0], [1.0, 3.0]), seen([-9.0, -8.5], [1.0, 2.0])]
    found = figures(runs, -8.0)
    assert found["reached"] == "1/2"
    assert (found["epochs"], found["seconds"]) == (15.0, 2.0)
    assert found["last"] == -7.75
    assert figures(runs, -1.0)["seconds"] is None
