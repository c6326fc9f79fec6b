"""Seconds to a loss are read from a trace, and compared with lockstep's."""

import math

import pytest

from benchmarks.pace.dial.tuning import Reached, best
from benchmarks.pace.stragglers import CASES, Trained, figures_of, ratios_of, seconds_to

CASE = CASES[1]


def test_a_loss_is_reached_when_it_is_there_first() -> None:
    assert seconds_to([(1.0, 3.0), (2.0, 0.5), (3.0, 0.7)], 0.5) == 2.0
    assert seconds_to([(1.0, 3.0)], 0.5) == math.inf


def test_paces_are_judged_against_lockstep_and_those_that_are_not_there_are_left_out() -> (
    None
):
    tuned = best([[Reached(5.0, 1, 1)] * 3], (0.1, 0.2, 0.4))
    runs = {"sync": [Trained(10.0, 100.0)], "sync:backup=1": [Trained(4.0, 200.0)]}
    figures = figures_of(CASE, runs, dict.fromkeys(runs, tuned))
    [ratio] = ratios_of(CASE, figures)
    assert (ratio.ours, ratio.against, ratio.value) == ("sync:backup=1", "sync", 0.4)
    assert ratio.verdict == "reached"
    rates = {figure.who: figure.median for figure in figures if figure.unit != "s"}
    assert rates == {"sync": 100.0, "sync:backup=1": 200.0}


def test_a_pace_without_a_goal_is_compared_and_not_judged() -> None:
    tuned = best([[Reached(5.0, 1, 1)] * 3], (0.1, 0.2, 0.4))
    runs = {"sync": [Trained(10.0, 100.0)], "async": [Trained(6.0, 200.0)]}
    figures = figures_of(CASE, runs, dict.fromkeys(runs, tuned))
    [ratio] = ratios_of(CASE, figures)
    assert (ratio.value, ratio.verdict) == (pytest.approx(0.6), "")
