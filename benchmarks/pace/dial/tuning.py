"""Seconds, updates and batches to a loss, at the best learning rate of one grid.

All rates of a grid are trained at once, on the same batches in the same order; the rate
that is best by its median over the seeds counts, and all its seeds are told.

Pure.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.pace.dial.problem import Stream
from benchmarks.pace.dial.replay import Look, Rule, replay
from benchmarks.pace.dial.schedule import schedule
from paceline.config import parse_pace
from paceline.forecast.models import Network, Pauses, parse_compute
from paceline.forecast.plan import Plan

BATCH = 16
TARGET = 0.8  # held-out loss, nats; by chance it is 2.3
SMOOTHED = 80  # batches over whose looks the mean counts: one lucky look does not
EVERY = 16  # batches between two looks
MOMENTUM = 0.9
GRID = tuple(0.01 * 2 ** (n / 2) for n in range(13))  # 0.01 to 0.64; see `grid`
PLAIN = Rule(GRID, MOMENTUM)
PATIENCE = 1.6  # times the best time; what takes longer is not best


def grid(momentum: float = MOMENTUM, rates: tuple[float, ...] = GRID) -> tuple[float, ...]:
    """The same steps for every momentum: with less of it, a gradient's is as much longer.

    Args:
        momentum: of SGD.
        rates: as they are with a momentum of 0.9.
    """
    return tuple(rate * (1 - momentum) / (1 - MOMENTUM) for rate in rates)


class Place(NamedTuple):
    """Where a pace is tried.

    Args:
        trainers: as many.
        compute: how long a batch takes, as `paceline simulate` is told.
        pauses: before a batch; None: never.
        network: between machines.
        parameter_bytes: of the model, as they travel.
    """

    trainers: int
    compute: str
    pauses: Pauses | None = None
    network: Network = Network()
    parameter_bytes: int = 0

    def plan(self, pace: str, batches: int, seed: int) -> Plan:
        """So many batches of all trainers, a little more if they come out uneven."""
        return Plan(
            trainers=self.trainers,
            pace=parse_pace(pace),
            steps=math.ceil(batches / self.trainers / 64) * 64,
            batch_size=BATCH,
            compute=parse_compute("compute", self.compute),
            pauses=self.pauses,
            network=self.network,
            parameter_bytes=self.parameter_bytes,
            seed=seed,
        )


class Reached(NamedTuple):
    """When a loss was reached; all infinite if it never was."""

    seconds: float
    updates: float
    batches: float


NEVER = Reached(math.inf, math.inf, math.inf)


class Tuned(NamedTuple):
    """A pace at its best rate.

    Args:
        rate: the best of the grid.
        is_inside: whether rates on both sides of it were tried, or none came there.
        seeds: what each seed came to.
        by_rate: {rate: median seconds}.
    """

    rate: float
    is_inside: bool
    seeds: tuple[Reached, ...]
    by_rate: dict[float, float]

    def median(self, what: str) -> float:
        """The median of ``seconds``, ``updates`` or ``batches`` over the seeds."""
        return statistics.median(getattr(one, what) for one in self.seeds)


def first_reached(
    looks: Iterable[Look],
    num_rates: int,
    target: float = TARGET,
    patience: float = PATIENCE,
) -> list[Reached]:
    """When each rate's loss, the mean of some looks, came to a target.

    Args:
        looks: of all rates, in order.
        num_rates: as many.
        target: the loss.
        patience: times the best rate's seconds after which others are given up.
    """
    found = [NEVER] * num_rates
    recent: deque[Look] = deque()
    for look in looks:
        recent.append(look)
        while recent[0].batches <= look.batches - SMOOTHED:
            recent.popleft()
        means: Any = sum(one.losses for one in recent) / len(recent)
        for n in range(num_rates):
            if found[n] is NEVER and means[n] <= target:
                found[n] = Reached(look.at_s, look.updates, look.batches)
        best_s = min(one.seconds for one in found)
        if look.at_s > patience * best_s or NEVER not in found:
            break
    return found


def best(trials: Sequence[Sequence[Reached]], rates: Sequence[float]) -> Tuned:
    """The best rate over all seeds.

    Args:
        trials: for each seed, what each rate came to.
        rates: the grid.
    """
    seeds_of = list(zip(*trials, strict=True))  # [rate][seed]
    medians = [statistics.median(one.seconds for one in seeds) for seeds in seeds_of]
    n = min(range(len(rates)), key=medians.__getitem__)
    is_inside = 0 < n < len(rates) - 1 or medians[n] == math.inf
    by_rate = dict(zip(rates, medians, strict=True))
    return Tuned(rates[n], is_inside, tuple(seeds_of[n]), by_rate)


def tune(
    place: Place,
    pace: str,
    batches: int,
    seeds: int,
    rule: Rule = PLAIN,
) -> Tuned:
    """A pace at its best rate at a place.

    Args:
        place: where.
        pace: as on the command line.
        batches: of all trainers, at most.
        seeds: how many.
        rule: its rates are the grid.
    """
    written = parse_pace(pace)
    trials = []
    for seed in range(seeds):
        found = schedule(place.plan(pace, batches, seed))
        looks = replay(found, written, rule, Stream(BATCH, seed), seed, EVERY)
        trials.append(first_reached(looks, len(rule.rates)))
    return best(trials, rule.rates)
