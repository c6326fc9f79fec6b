"""The same factorisation as one plain loop in one process: what to compare with.

Rows begin as normal numbers of a small deviation.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import descent
import numpy as np
from descent import Float32s, Int64s
from ratings import Ratings, Split

BEGIN_STD = 0.1


class Settings(NamedTuple):
    """What a factorisation may choose; the best of one grid for MovieLens-100K.

    The grid: k of 8, 16, 32; rate of 0.005, 0.01, 0.02; penalty of 0.02, 0.05, 0.1.

    Args:
        k: factors of a user or an item.
        rate: of `descent.step_along`.
        penalty: of both methods.
        decay: what the rate is multiplied with after every epoch.
    """

    k: int = 16
    rate: float = 0.02
    penalty: float = 0.1
    decay: float = 1.0


class ByRow(NamedTuple):
    """Ratings row by row: those of row m lie from ``starts[m]`` to ``starts[m + 1]``."""

    starts: Int64s
    others: Int64s
    values: Float32s

    def part(self, first: int, stop: int) -> "ByRow":
        """Of the rows ``[first, stop)`` alone."""
        begin, end = self.starts[first], self.starts[stop]
        starts = self.starts[first : stop + 1] - begin
        return ByRow(starts, self.others[begin:end], self.values[begin:end])


def by_row(rows: Int64s, others: Int64s, values: Float32s, num_rows: int) -> ByRow:
    """Sort ratings by their users, or by their items."""
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(num_rows + 1))
    return ByRow(starts.astype(np.int64), others[order], values[order])


def test_rmse(split: Split, p: Float32s, q: Float32s) -> float:
    """The error on what was held out."""
    test = split.test
    return float(descent.rmse(p, q, *test, np.float32(split.mean)))


def begun(split: Split, settings: Settings, seed: int) -> tuple[Float32s, Float32s]:
    """Rows of users and items to begin with."""
    draw = np.random.default_rng(seed)
    p, q = (
        draw.normal(0, BEGIN_STD, (count, settings.k + 1)).astype(np.float32)
        for count in (split.num_users, split.num_items)
    )
    return p, q


def sgd(split: Split, settings: Settings, epochs: int, seed: int = 0) -> Iterator[float]:
    """Stochastic gradient descent; the error on what was held out after every epoch."""
    p, q = begun(split, settings, seed)
    mean, penalty = np.float32(split.mean), np.float32(settings.penalty)
    draw = np.random.default_rng([seed, 1])
    for epoch in range(epochs):
        rate = np.float32(settings.rate * settings.decay**epoch)
        train: Ratings = split.train.take(draw.permutation(len(split.train.values)))
        descent.step_along(p, q, *train, mean, rate, penalty)
        yield test_rmse(split, p, q)


def ccd(split: Split, settings: Settings, epochs: int, seed: int = 0) -> Iterator[float]:
    """Coordinate descent, users and then items; the error after every epoch."""
    p, q = begun(split, settings, seed)
    mean, penalty = np.float32(split.mean), np.float32(settings.penalty)
    users, items, values = split.train
    of_users = by_row(users, items, values, split.num_users)
    of_items = by_row(items, users, values, split.num_items)
    for _ in range(epochs):
        descent.descend(p, q, *of_users, mean, penalty, 0, settings.k + 1)
        descent.descend(q, p, *of_items, mean, penalty, 0, settings.k + 1)
        yield test_rmse(split, p, q)


METHODS: dict[str, Callable[[Split, Settings, int, int], Iterator[float]]] = {
    "sgd": sgd,
    "ccd": ccd,
}
