"""How long `paceline simulate` takes: 10,000 trainers with 100 steps, on one core.

::

    python -m benchmarks simulator                       # some minutes of one core a pace
    python -m benchmarks simulator --trainers 1000

The decisions of all three roles are the product's own, message by message. Every batch is
counted once and every push decided, or it is no result.

Waits: for nothing but its own computing.
"""

import argparse
import gc
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.harness import figures as figures_
from benchmarks.harness.figures import judged, kept
from benchmarks.harness.goals import wanted
from benchmarks.harness.record import circumstances, table, write
from paceline.config import Pace, parse_pace
from paceline.forecast.job import forecast
from paceline.forecast.models.models import Lognormal
from paceline.forecast.plan import Plan

PACES = ("sync", "ssp:3", "async")


class Figure(NamedTuple):
    """What one forecast took: seconds of the clock, and of this core."""

    batches: int
    wall_s: float
    core_s: float


def measure(trainers: int, steps: int, pace: Pace) -> Figure:
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
    return Figure(found.batches, *took)


def main(arguments: Sequence[str]) -> int:
    """Measure each pace; 1 if ten thousand trainers with a hundred steps take too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainers", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=100)
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    is_whole = (flags.trainers, flags.steps) == (10_000, 100)
    gc.disable()  # as the command does
    rows = [("pace", "batches", "clock", "core", "core, a batch")]
    figures: dict[str, Figure] = {}
    for pace in PACES:
        found = measure(flags.trainers, flags.steps, parse_pace(pace))
        figures[pace] = found
        each_us = 1e6 * found.core_s / found.batches
        row = (f"{found.batches:,}", f"{found.wall_s:.1f} s", f"{found.core_s:.1f} s")
        rows.append((pace, *row, f"{each_us:.0f} us"))
        gc.collect()
    print(table(rows))
    for_page = [
        figures_.Figure("a forecast", pace, "ours", "s", (found.core_s,))
        for pace, found in figures.items()
    ]
    size = f"{flags.trainers:,} trainers with {flags.steps} steps"
    told = f"{size}: every batch was counted once"
    # A smaller job says nothing of the goal.
    goal = wanted("simulator")
    ratios = [judged(figure, goal) for figure in for_page if is_whole]
    record = kept(for_page, ratios, told, is_equal=True)
    print(f"\n{write('simulator', {**where, **record})}")
    slowest_s = max(found.core_s for found in figures.values())
    goal_s = goal.at_most or 0.0
    print(f"wanted: 10,000 trainers with 100 steps in {goal_s:.0f} s of one core")
    return int(is_whole and slowest_s > goal_s)
