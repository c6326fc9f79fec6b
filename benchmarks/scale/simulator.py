"""How long `paceline simulate` takes: 10,000 trainers with 100 steps, on one core.

::

    python -m benchmarks simulator                       # some minutes of one core a pace
    python -m benchmarks simulator --trainers 1000

The decisions of all three roles are the product's own, message by message. Every batch is
counted once and every push decided, or it is no result.

Waits: for nothing but its own computing.
"""

import gc
import time
from typing import NamedTuple

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, judged
from benchmarks.harness.record import table
from paceline.config import Pace, parse_pace
from paceline.forecast.job import forecast
from paceline.forecast.models import Lognormal
from paceline.forecast.plan import Plan

PACES = ("sync", "ssp:3", "async")


class Took(NamedTuple):
    """What one forecast took: seconds of the clock, and of this core."""

    batches: int
    wall_s: float
    core_s: float


def measure(trainers: int, steps: int, pace: Pace) -> Took:
    """Forecast a job of small pushes, and check its counts."""
    plan = Plan(
        trainers=trainers,
        servers=max(1, trainers // 20),
        steps=steps,
        pace=pace,
        compute=Lognormal(0.7, 0.1),  # most waits end before they are asked about again
        parameter_bytes=10**6,
    )
    wall_s, core_s = time.perf_counter(), time.process_time()
    found = forecast(plan)
    took = (time.perf_counter() - wall_s, time.process_time() - core_s)
    assert found.batches == found.records == trainers * steps, found
    return Took(found.batches, *took)


@bench("simulator", opt("trainers", 10_000), opt("steps", 100), must=["simulator"])
def main(run: Run) -> Found:
    """Measure each pace."""
    trainers, steps = run.flags.trainers, run.flags.steps
    gc.disable()  # as the command does
    rows, figures = [["pace", "batches", "clock s", "core s", "core us, a batch"]], []
    for pace in PACES:
        found = measure(trainers, steps, parse_pace(pace))
        each_us = 1e6 * found.core_s / found.batches
        cells = (f"{found.wall_s:.1f}", f"{found.core_s:.1f}", f"{each_us:.0f}")
        rows.append([pace, f"{found.batches:,}", *cells])
        figures.append(Figure("a forecast", pace, "ours", "s", (found.core_s,)))
        gc.collect()
    # A smaller job says nothing of the goal.
    is_whole = (trainers, steps) == (10_000, 100)
    ratios = [judged(figure, "simulator") for figure in figures if is_whole]
    told = f"{trainers:,} trainers with {steps} steps: every batch was counted once"
    return Found(figures, ratios, told, tables=[table(rows)])
