"""Steps of two trainers count while both train; the model is as large as is said."""

import pytest

from benchmarks.dense import two_trainers
from benchmarks.dense.two_trainers import WARM, rate_of, trained


def test_steps_count_from_when_both_are_warm_until_the_first_has_no_more() -> None:
    first = [float(second) for second in range(WARM + 5)]
    later = [2.0 + second for second in range(WARM + 5)]
    # Both are warm at 11 s, the first ends at 14 s: three steps of each.
    assert rate_of([first, later]) == pytest.approx(6 / 3)
    assert rate_of([first]) == pytest.approx(1.0)


def test_the_plain_loop_tells_of_every_step() -> None:
    ended_s = trained("dense", None, 20)
    assert len(ended_s) == 20
    assert ended_s == sorted(ended_s)


def test_the_model_of_the_goal_has_eight_hundred_thousand_parameters() -> None:
    model = two_trainers.plain_of("language")
    count = sum(values.numel() for values in model.parameters())
    assert count == pytest.approx(800_000, rel=0.03)
