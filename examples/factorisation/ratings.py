"""Ratings of films by people: who, what, how many stars; and ones made up to a known floor.

MovieLens-100K has 100,000 ratings of 1,682 films by 943 people. One in ten is held out,
by a permutation that is the same everywhere. `generated` draws ratings of few factors and
adds noise, so that nobody's held-out error can be below the noise.

Source of the data: Harper and Konstan, The MovieLens Datasets, 2015. Its terms forbid to
pass it on, so it is fetched from where it lies.
"""

import heapq
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets import sets

_CACHE_NAME = "factorisation-ml-100k-1.npz"  # another encoding, another number
_HELD_OUT = 10  # one in ten
_SPLIT_SEED = 0

Int64s = NDArray[np.int64]
Float32s = NDArray[np.float32]


class Ratings(NamedTuple):
    """Ratings ``(n,)`` float32 of items ``(n,)`` by users ``(n,)``, both int64 from 0."""

    users: Int64s
    items: Int64s
    values: Float32s

    def take(self, chosen: Int64s) -> "Ratings":
        """The ratings at these positions."""
        return Ratings(*(column[chosen] for column in self))


class Split(NamedTuple):
    """What is learned from, what is held out, and of how many users and items.

    Args:
        train: never held out.
        test: never learned from.
        num_users: ids of users are below.
        num_items: ids of items are below.
        mean: of the ratings that are learned from: what a model begins with.
        floor: RMSE that no model can be below, if it is known.
    """

    train: Ratings
    test: Ratings
    num_users: int
    num_items: int
    mean: float
    floor: float | None = None


def movielens() -> Split:
    """MovieLens-100K; fetched and encoded once, then read from the cache of data sets."""
    arrays = sets.wait_for_arrays(_CACHE_NAME, _make)
    ratings = Ratings(arrays["users"], arrays["items"], arrays["values"])
    train, test = held_out(ratings, _SPLIT_SEED)
    num_users, num_items = (int(column.max()) + 1 for column in ratings[:2])
    return Split(train, test, num_users, num_items, _mean(train))


def generated(
    num_users: int,
    num_items: int,
    num_ratings: int,
    factors: int,
    noise: float,
    seed: int = 0,
) -> Split:
    """Ratings ``3 + b_u + b_i + p_u q_i + noise``, as a normal distribution draws all five.

    Users and items are drawn evenly. The floor is the error of who knows the parameters.
    """
    draw = np.random.default_rng(seed)
    users = draw.integers(0, num_users, num_ratings)
    items = draw.integers(0, num_items, num_ratings)
    scale = factors**-0.25  # so that p_u q_i has a deviation of 1, however many factors
    p = draw.normal(0, scale, (num_users, factors))
    q = draw.normal(0, scale, (num_items, factors))
    biases = draw.normal(0, 0.4, num_users)[users] + draw.normal(0, 0.4, num_items)[items]
    exact = 3 + biases + np.einsum("nk,nk->n", p[users], q[items])
    errors = draw.normal(0, noise, num_ratings)
    ratings = Ratings(users, items, (exact + errors).astype(np.float32))
    train, test = held_out(ratings, seed)
    kept_out = _order(num_ratings, seed)[: num_ratings // _HELD_OUT]
    floor = float(np.sqrt(np.mean(errors[kept_out] ** 2)))
    return Split(train, test, num_users, num_items, _mean(train), floor)


def dealt(split: Split, blocks: int) -> Split:
    """The same with items numbered anew: ranges of them have about as many ratings each.

    Films are rated unevenly, and in most data those with the lowest numbers most of all: a
    rotation whose blocks are ranges of such numbers waits for the first block.
    """
    count = split.num_items
    counts = np.bincount(split.train.items, minlength=count)
    first = [block * count // blocks for block in range(blocks + 1)]
    place, lightest = np.empty(count, np.int64), [(0, block) for block in range(blocks)]
    free = first[:-1]
    for item in np.argsort(-counts, kind="stable").tolist():
        load, block = heapq.heappop(lightest)
        place[item] = free[block]
        free[block] += 1
        if free[block] < first[block + 1]:
            heapq.heappush(lightest, (load + int(counts[item]), block))
    train, test = split.train, split.test
    return split._replace(
        train=train._replace(items=place[train.items]),
        test=test._replace(items=place[test.items]),
    )


def held_out(ratings: Ratings, seed: int) -> tuple[Ratings, Ratings]:
    """What is learned from and what is not: the first tenth of a permutation."""
    order = _order(len(ratings.values), seed)
    num_test = len(order) // _HELD_OUT
    return ratings.take(order[num_test:]), ratings.take(order[:num_test])


def _order(count: int, seed: int) -> Int64s:
    return np.random.default_rng(seed).permutation(count)


def _mean(ratings: Ratings) -> float:
    return float(ratings.values.mean(dtype=np.float64))


def encode(lines: list[str]) -> Ratings:
    """RecBole's atomic file: ``user item rating time``, tab by tab, below a head.

    Ids are places in the sorted order of the file's own.
    """
    columns = np.array([line.split("\t")[:3] for line in lines[1:] if line], dtype=float)
    users, items = (
        np.unique(columns[:, number], return_inverse=True)[1].astype(np.int64)
        for number in (0, 1)
    )
    return Ratings(users, items, columns[:, 2].astype(np.float32))


def _make() -> dict[str, NDArray[np.generic]]:
    path: Path = sets.wait_for_files("ml-100k")["ml-100k.inter"]
    return dict(encode(path.read_text(encoding="utf-8").splitlines())._asdict())
