"""What an algorithm is given, and what it gives back: the same for all."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import absorbing
import descent
import numpy as np
from descent import Float32s, Int64s
from plain import BEGIN_STD, ByRow, Settings
from ratings import Ratings, Split

import paceline


class Work(NamedTuple):
    """What is to be done.

    Args:
        split: ratings to learn from.
        settings: of the method.
        epochs: runs over the ratings.
        batch_size: ratings between rows that come and rows that go, where they do.
        blocks: into how many the rows are cut, where they are.
        slices: blocks that rotation has for each part of the users: one is computed, the
            others travel.
        seed: of the order of ratings.
        pause: called with the number of ratings after each step, to make a trainer slow.
    """

    split: Split
    settings: Settings
    epochs: int
    batch_size: int
    blocks: int = 8
    slices: int = 2
    seed: int = 0
    pause: Callable[[int], None] = lambda ratings: None  # noqa: ARG005

    @property
    def width(self) -> int:
        """Numbers in a row: the factors, and the bias behind them."""
        return self.settings.k + 1

    @property
    def begin(self) -> paceline.Normal:
        """What rows begin with."""
        return paceline.Normal(BEGIN_STD)

    def step_along(self, p: Float32s, q: Float32s, ratings: Ratings, epoch: int) -> None:
        """A step along each rating, in place; its users and items are places in p and q."""
        chosen = self.settings
        rate = np.float32(chosen.rate * chosen.decay**epoch)
        mean, penalty = np.float32(self.split.mean), np.float32(chosen.penalty)
        descent.step_along(p, q, *ratings, mean, rate, penalty)
        self.pause(len(ratings.values))

    def descend(self, rows: Float32s, fixed: Float32s, ratings: ByRow) -> None:
        """Each number of each row at its best for all its ratings, in place."""
        mean, penalty = np.float32(self.split.mean), np.float32(self.settings.penalty)
        descent.descend(rows, fixed, *ratings, mean, penalty, 0, self.width)
        self.pause(len(ratings.values))

    def absorb(
        self,
        rows: Float32s,
        fixed: Float32s,
        places: Int64s,
        others: Int64s,
        values: Float32s,
    ) -> None:
        """Add ratings to what rows have absorbed, in place; see `absorbing`."""
        absorbing.absorb(rows, fixed, places, others, values, np.float32(self.split.mean))
        self.pause(len(values))

    def settle(self, rows: Float32s) -> None:
        """Rows that have absorbed all their ratings come to their best, in place."""
        absorbing.settle(rows, self.width, np.float32(self.settings.penalty))


class Running(NamedTuple):
    """An algorithm at work.

    Args:
        steps: to be iterated over: a step each.
        rows: of all users and all items, as they are now.
    """

    steps: Iterator[None]
    rows: Callable[[], tuple[Float32s, Float32s]]
