"""When a loss counts as reached, and which rate is best."""

import math

import numpy as np

from benchmarks.pace.dial.replay import Look
from benchmarks.pace.dial.tuning import NEVER, SMOOTHED, Place, Reached, best, first_reached
from paceline.config import Sync


def looks(*losses: tuple[float, ...], every: int = SMOOTHED) -> list[Look]:
    return [
        Look(float(n), n, n * every, np.array(found, np.float32))
        for n, found in enumerate(losses, 1)
    ]


def test_a_loss_is_reached_when_its_mean_over_some_looks_is() -> None:
    found = first_reached(looks((3.0,), (0.5,), (0.5,)), 1, target=1.0)
    assert found == [Reached(2.0, 2, 2 * SMOOTHED)]
    often = looks((3.0,), (0.5,), (0.5,), (0.5,), every=SMOOTHED // 2)
    assert first_reached(often, 1, target=1.0) == [Reached(3.0, 3, 3 * SMOOTHED // 2)]


def test_each_rate_is_looked_at_by_itself_and_no_number_is_never_reached() -> None:
    found = first_reached(looks((3.0, math.nan), (0.5, math.nan)), 2, target=1.0)
    assert found == [Reached(2.0, 2, 2 * SMOOTHED), NEVER]


def test_rates_far_behind_the_best_are_not_waited_for_unless_asked() -> None:
    slow = looks(*[(0.5, 3.0)] * 5, (0.5, 0.5))
    assert first_reached(slow, 2, target=1.0)[1] is NEVER
    assert first_reached(slow, 2, target=1.0, patience=math.inf)[1].seconds == 6.0


def test_the_best_rate_is_so_by_its_median_and_says_if_it_lies_at_an_end() -> None:
    def at(*seconds: float) -> list[Reached]:
        return [Reached(s, s, s) for s in seconds]

    tuned = best([at(9, 3, 4), at(9, 1, 4), at(9, 8, 4)], (0.1, 0.2, 0.4))
    assert (tuned.rate, tuned.is_inside) == (0.2, True)
    assert tuned.median("seconds") == 3
    assert tuned.by_rate == {0.1: 9, 0.2: 3, 0.4: 4}
    assert not best([at(1, 2, 3)], (0.1, 0.2, 0.4)).is_inside


def test_a_place_plans_at_least_as_many_batches_as_were_asked_for() -> None:
    plan = Place(4, "fixed:0.05").plan("sync", 1000, seed=3)
    assert plan.trainers * plan.steps >= 1000
    assert (plan.pace, plan.seed) == (Sync(), 3)
