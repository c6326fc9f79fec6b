"""What old gradients do to learning, and what helps.

Pure.
"""

import math
from typing import NamedTuple

from benchmarks.pace.dial.problem import Stream
from benchmarks.pace.dial.replay import Rule, replay
from benchmarks.pace.dial.schedule import forced
from benchmarks.pace.dial.table import Table, told
from benchmarks.pace.dial.tuning import (
    BATCH,
    EVERY,
    TARGET,
    Tuned,
    best,
    first_reached,
    grid,
)
from paceline.config import Async

AGES = (0, 1, 2, 4, 8, 16, 32, 64)
UPDATES = 4_000
RATES = tuple(0.0025 * 2**n for n in range(8))  # 0.0025 to 0.32; see `grid`
WARM_UP = 500  # updates
WAYS = {
    "momentum 0.9": Rule(RATES),
    "step / age": Rule(RATES, scale=1.0),
    "warm-up": Rule(RATES, warm_up=WARM_UP),
    "step / age, warm-up": Rule(RATES, warm_up=WARM_UP, scale=1.0),
    "no momentum": Rule(grid(0.0, RATES), momentum=0.0),
    "no momentum, step / age": Rule(grid(0.0, RATES), momentum=0.0, scale=1.0),
}


class Aged(NamedTuple):
    """What became of one age.

    Args:
        tuned: at its own best rate.
        kept: updates to the loss at the rate that is best for fresh gradients.
    """

    tuned: Tuned
    kept: float


def ages(seeds: int, updates: int = UPDATES) -> Table:
    """Updates to a loss by age, at the rate of fresh gradients and at the best one."""
    found = {way: _aged(rule, seeds, updates) for way, rule in WAYS.items()}
    rows = [["age", *(f"{way}" for way in WAYS)]]
    for age in AGES:
        cells = [str(age)]
        for aged in found.values():
            one = aged[age]
            own = one.tuned.median("updates")
            rate = f" at {one.tuned.rate:g}" if math.isfinite(own) else ""
            cells.append(f"{told(one.kept)}; {told(own)}{rate}")
        rows.append(cells)
    return Table(
        "ages",
        "Updates to the same loss, by how old gradients are",
        f"Every gradient is so many updates old; batches of {BATCH}, held-out loss "
        f"{TARGET:g}, at most {updates:,} updates. First at the rate that is best at age "
        f"0, then at the best of {len(RATES)} rates",
        rows,
        {
            f"{way}, {which}": {
                str(age): one.kept if which == "one rate" else one.tuned.median("updates")
                for age, one in aged.items()
            }
            for way, aged in found.items()
            for which in ("one rate", "best rate")
        },
        "age of a gradient, in updates",
        "updates to the loss",
    )


def _aged(rule: Rule, seeds: int, updates: int) -> dict[int, Aged]:
    found: dict[int, Aged] = {}
    fresh = 0.0
    for age in AGES:
        trials = []
        for seed in range(seeds):
            stream = Stream(BATCH, seed)
            looks = replay(forced(updates, age), Async(), rule, stream, seed, EVERY)
            trials.append(first_reached(looks, len(rule.rates), patience=math.inf))
        tuned = best(trials, rule.rates)
        fresh = fresh or tuned.rate
        place = rule.rates.index(fresh)
        kept = sorted(trial[place].updates for trial in trials)[seeds // 2]
        found[age] = Aged(tuned, kept)
    return found
