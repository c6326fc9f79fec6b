"""What old gradients do to learning, and what helps.

Pure.
"""

import math
import statistics
from typing import Any, NamedTuple

from benchmarks.pace.dial.problem import Stream
from benchmarks.pace.dial.replay import Rule, replay
from benchmarks.pace.dial.schedule import forced
from benchmarks.pace.dial.table import Table
from benchmarks.pace.dial.tuning import (
    BATCH,
    EVERY,
    TARGET,
    Tuned,
    best,
    first_reached,
    grid,
)
from paceline.config import parse_pace

AGES = (0, 2, 4, 8, 16, 32, 64)
UPDATES = 3_000
RATES = tuple(0.0025 * 2**n for n in range(8))  # 0.0025 to 0.32; see `grid`
LAST = 5  # looks of which the mean is the loss at the end
DIVERGED = 3.0  # more than by chance, which is 2.3
WAYS = {  # {what is done: (pace, rule)}
    "momentum 0.9": ("async", Rule(RATES)),
    "scale=1": ("async:scale=1", Rule(RATES)),
    "warmup=500": ("async:warmup=500", Rule(RATES)),
    "no momentum": ("async", Rule(grid(0.0, RATES), 0.0)),
    "no momentum, scale=1": ("async:scale=1", Rule(grid(0.0, RATES), 0.0)),
}
_LOSS, _UPDATES = "loss at the rate for fresh gradients", "updates at the best rate"


class Aged(NamedTuple):
    """What became of one age.

    Args:
        tuned: at its own best rate.
        loss: at the end, at the rate that is best for fresh gradients; infinite if it
            diverged.
    """

    tuned: Tuned
    loss: float


def ages(seeds: int, updates: int = UPDATES) -> Table:
    """The loss by age at the rate of fresh gradients, and updates to a loss at the best."""
    found = {way: _aged(*how, seeds, updates) for way, how in WAYS.items()}
    rows = [["age", *WAYS]]
    rows += [[str(age), *(_cell(aged[age]) for aged in found.values())] for age in AGES]
    return Table(
        "ages",
        "What old gradients do to learning",
        f"Every gradient is so many updates old; batches of {BATCH}. First the held-out "
        f"loss after {updates:,} updates at the rate that is best at age 0; then, at the "
        f"best of {len(RATES)} rates, the updates to a loss of {TARGET:g}",
        rows,
        {
            f"{way}, {which}": {
                str(age): one.loss if which == _LOSS else one.tuned.median("updates")
                for age, one in aged.items()
            }
            for which in (_LOSS, _UPDATES)
            for way, aged in found.items()
        },
        "age of a gradient, in updates",
        "",
    )


def _cell(one: Aged) -> str:
    loss = f"{one.loss:.2f}" if math.isfinite(one.loss) else "diverges"
    updates = one.tuned.median("updates")
    if not math.isfinite(updates):
        return f"{loss}; not reached"
    return f"{loss}; {updates:,.0f} at {one.tuned.rate:.3g}"


def _aged(pace: str, rule: Rule, seeds: int, updates: int) -> dict[int, Aged]:
    found: dict[int, Aged] = {}
    written = parse_pace(pace)
    fresh = 0  # the place of the rate that is best at age 0
    for age in AGES:
        trials, losses = [], list[Any]()
        for seed in range(seeds):
            stream = Stream(BATCH, seed)
            looks = list(replay(forced(updates, age), written, rule, stream, seed, EVERY))
            trials.append(first_reached(looks, len(rule.rates)))
            losses.append(sum(look.losses for look in looks[-LAST:]) / LAST)
        tuned = best(trials, rule.rates)
        if age == 0:
            fresh = rule.rates.index(tuned.rate)
        ends = [float(loss[fresh]) for loss in losses]
        loss = statistics.median(end if end < DIVERGED else math.inf for end in ends)
        found[age] = Aged(tuned, loss)
    return found
