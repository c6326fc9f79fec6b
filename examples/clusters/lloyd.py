"""Lloyd's algorithm: its kernels, its start, and the plain loop that is the oracle.

One iteration is a sum: each record adds itself, one, and its square to the statistics of
the centroid that is nearest, and the next centroids follow from the sums.

::

    points (n, d) --assign--> statistics (k, d + 2) --moved--> centroids (k, d)
                              [ sum of members | number | sum of squares ]

Which records lie together in a batch makes no difference to any of them: a record's
distances come out of the same additions in the same order whatever lies beside it. Sums
are float64, so those of whole numbers (pixels) are exact in any order.

Pure. Lloyd (1982); the start is k-means++ of Arthur and Vassilvitskii (2007), greedy as
in scikit-learn: the best of 2 + log(k) draws.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Points = NDArray[Any]  # (n, d): uint8, or float32, or float64
Centroids = NDArray[np.float64]  # (k, d)
Statistics = NDArray[np.float64]  # (k, d + 2)

_TILE = 4  # records that are measured together; the kernel is written out for four
_PAIR = 2  # centroids that they are measured against at a time
_LANES = 8  # sums side by side
_REORDERED = {"reassoc", "contract", "nsz"}  # of floating point, so that sums are vectors


class Fit(NamedTuple):
    """What a run came to.

    Args:
        centroids: after the last iteration.
        inertias: one an iteration, of the centroids before it.
    """

    centroids: Centroids
    inertias: list[float]


def assign(points: Points, centroids: Centroids) -> Statistics:
    """What these records add to the statistics of their nearest centroids.

    Distances are measured in float32, in float64 where the points are float64; of two
    centroids equally near the first is taken. Costs one trip over the points.
    """
    statistics = np.zeros((len(centroids), points.shape[1] + 2))
    _nearest(points, *_laid_out(points, centroids), statistics, np.empty(0, np.int64))
    return statistics


def labels(points: Points, centroids: Centroids) -> NDArray[np.int64]:
    """The number of each record's nearest centroid, ``(n,)``."""
    found = np.empty(len(points), np.int64)
    nothing = np.zeros((len(centroids), points.shape[1] + 2))
    _nearest(points, *_laid_out(points, centroids), nothing, found)
    return found


class Nearest:
    """The nearest of those centroids that points have met so far, block by block.

    Whichever way centroids are cut into blocks, and in whichever order the blocks come,
    what is nearest of all is what `labels` finds.
    """

    def __init__(self, points: Points) -> None:
        """Nothing was met yet."""
        is_double = points.dtype == np.float64
        self._points = points
        self._score = np.full(len(points), np.inf, np.float64 if is_double else np.float32)
        self._label = np.zeros(len(points), np.int64)

    def meet(self, first: int, centroids: Centroids) -> None:
        """Measure the points against a block of centroids, numbered from ``first``."""
        laid = _laid_out(self._points, centroids)
        _compare(self._points, *laid, first, self._score, self._label)

    def add_to(self, first: int, statistics: Statistics) -> None:
        """Add the points to the statistics of a block, of those whose nearest is in it."""
        _add_members(self._points, self._label, first, statistics)


def moved(statistics: Statistics, centroids: Centroids) -> Centroids:
    """The mean of each centroid's members; one without members stays where it is."""
    counts = statistics[:, -2:-1]
    return np.where(counts > 0, statistics[:, :-2] / np.maximum(counts, 1), centroids)


def inertia(statistics: Statistics, centroids: Centroids) -> float:
    """The sum of squared distances of all members, from their sums alone."""
    return float(inertia_of_each(statistics, centroids).sum())


def inertia_of_each(statistics: Statistics, centroids: Centroids) -> NDArray[np.float64]:
    """The same of each centroid's members, ``(k,)``.

    In float64: of n members at c, sum |x - c|^2 = sum |x|^2 - 2 c sum x + n |c|^2.
    """
    sums, counts, squares = statistics[:, :-2], statistics[:, -2], statistics[:, -1]
    cross = np.einsum("kd,kd->k", sums, centroids)
    norms = np.einsum("kd,kd->k", centroids, centroids)
    return np.asarray(squares - 2 * cross + counts * norms)


def count(statistics: Statistics) -> int:
    """How many records are in the statistics."""
    return int(statistics[:, -2].sum())


def plain(points: Points, start: Centroids, iterations: int) -> Fit:
    """The loop in one process: what all four models must come to."""
    centroids, inertias = start, []
    for _ in range(iterations):
        statistics = assign(points, centroids)
        inertias.append(inertia(statistics, centroids))
        centroids = moved(statistics, centroids)
    return Fit(centroids, inertias)


def choose_start(points: Points, k: int, seed: int) -> Centroids:
    """Choose k of the records by k-means++: the same on every machine that has them.

    Raises:
        ValueError: fewer points than centroids.
    """
    if not 1 <= k <= len(points):
        raise ValueError(f"k is {k}: expected 1 to {len(points)}, the number of points")
    draw = np.random.default_rng(seed)
    num_trials = 2 + int(np.log(k))
    chosen = [int(draw.integers(len(points)))]
    nearest = _squared_distances(points, points[chosen[0]].astype(np.float64))
    for _ in range(k - 1):
        heights = np.cumsum(nearest)
        trials = np.searchsorted(heights, draw.random(num_trials) * heights[-1], "right")
        trials = np.minimum(trials, len(points) - 1)
        reached = [
            np.minimum(nearest, _squared_distances(points, points[t].astype(np.float64)))
            for t in trials
        ]
        best = int(np.argmin([distances.sum() for distances in reached]))
        chosen.append(int(trials[best]))
        nearest = reached[best]
    return points[chosen].astype(np.float64)


def mutual_information(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """How much two labelings say of each other, 0 to 1, whatever their numbers are.

    Normalized by the mean of both entropies, as in scikit-learn.
    """
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1 / len(first))
    rows, columns = table.sum(1), table.sum(0)
    is_there = table > 0
    expected = np.outer(rows, columns)[is_there]
    shared = float((table[is_there] * np.log(table[is_there] / expected)).sum())
    mean = (_entropy(rows) + _entropy(columns)) / 2
    return shared / mean if mean else 1.0


def _entropy(shares: NDArray[np.float64]) -> float:
    there = shares[shares > 0]
    return float(-(there * np.log(there)).sum())


def _laid_out(points: Points, centroids: Centroids) -> tuple[NDArray[Any], NDArray[Any]]:
    """Centroids as the kernel reads them, and half of their squared norms.

    There are pairs of them: one without a partner gets one that is infinitely far, so that
    every distance comes out of the same instructions, whichever centroids are beside it.
    """
    dtype = np.float64 if points.dtype == np.float64 else np.float32
    num = -(-len(centroids) // _PAIR) * _PAIR
    laid = np.zeros((num, centroids.shape[1]), dtype)
    laid[: len(centroids)] = centroids
    norms = np.full(num, np.inf)
    norms[: len(centroids)] = np.einsum("kd,kd->k", centroids, centroids) / 2
    return laid, norms.astype(dtype)


@njit(fastmath=_REORDERED, error_model="numpy")
def _nearest(points, centroids, half_norms, statistics, found):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  (numba infers them)
    """Add each point to the statistics of its nearest centroid; note which, if asked."""
    num, dim = points.shape
    tile = np.zeros((_TILE, dim), centroids.dtype)
    best = np.empty(_TILE, centroids.dtype)
    label = np.empty(_TILE, np.int64)
    for first in range(0, num, _TILE):
        size = min(_TILE, num - first)
        _load(points, first, size, tile)
        best[:] = np.inf
        label[:] = 0
        for pair in range(0, len(centroids), _PAIR):
            _measure(tile, centroids, half_norms, pair, best, label)
        for r in range(size):
            _add(points[first + r], statistics[label[r]])
        if len(found):
            found[first : first + size] = label[:size]


@njit(fastmath=_REORDERED, error_model="numpy")
def _compare(points, centroids, half_norms, number, scores, labels):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Lower scores and labels where one of these is nearer, or the first of equals."""
    num, dim = points.shape
    tile = np.zeros((_TILE, dim), centroids.dtype)
    best = np.empty(_TILE, centroids.dtype)
    label = np.empty(_TILE, np.int64)
    for first in range(0, num, _TILE):
        size = min(_TILE, num - first)
        _load(points, first, size, tile)
        best[:] = np.inf
        label[:] = 0
        for pair in range(0, len(centroids), _PAIR):
            _measure(tile, centroids, half_norms, pair, best, label)
        for r in range(size):
            found, score = number + label[r], scores[first + r]
            if best[r] < score or (best[r] == score and found < labels[first + r]):
                scores[first + r] = best[r]
                labels[first + r] = found


@njit(fastmath=_REORDERED, error_model="numpy")
def _add_members(points, labels, number, statistics):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the points whose label is one of a block's, which is numbered from ``number``."""
    for i in range(len(points)):
        row = labels[i] - number
        if 0 <= row < len(statistics):
            _add(points[i], statistics[row])


@njit(fastmath=_REORDERED, error_model="numpy")
def _load(points, first, size, tile):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Points beside each other, as the centroids are; what is beyond the last stays."""
    for r in range(_TILE):
        if r < size:
            for j in range(tile.shape[1]):
                tile[r, j] = points[first + r, j]


@njit(fastmath=_REORDERED, error_model="numpy")
def _measure(x, centroids, half_norms, pair, best, label):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Note which of two centroids are nearer to four points than what is known.

    argmin |x - c|^2 = argmin |c|^2 / 2 - x c. Eight sums in registers for six loads.
    """
    y = centroids[pair : pair + _PAIR]
    # A zero that the compiler knows: twice as fast as one made of an element.
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = x.dtype.type(0)
    for j in range(x.shape[1]):
        y0, y1 = y[0, j], y[1, j]
        a0 += x[0, j] * y0
        a1 += x[0, j] * y1
        b0 += x[1, j] * y0
        b1 += x[1, j] * y1
        c0 += x[2, j] * y0
        c1 += x[2, j] * y1
        d0 += x[3, j] * y0
        d1 += x[3, j] * y1
    for s, products in enumerate(((a0, b0, c0, d0), (a1, b1, c1, d1))):
        for r in range(_TILE):
            score = half_norms[pair + s] - products[r]
            if score < best[r]:
                best[r] = score
                label[r] = pair + s


@njit(fastmath=_REORDERED, error_model="numpy")
def _add(point, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add a point, one, and its square to a row of statistics."""
    dim = len(point)
    square = 0.0
    for j in range(dim):
        value = np.float64(point[j])
        row[j] += value
        square += value * value
    row[dim] += 1
    row[dim + 1] += square


@njit
def _squared_distances(points, center):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Of each point from one place, float64.

    Eight sums side by side, in an order that is written down, so that every kind of
    processor comes to the same bits, and so to the same start.
    """
    num, dim = points.shape
    found = np.empty(num)
    sums = np.empty(_LANES)
    for i in range(num):
        sums[:] = 0.0
        for first in range(0, dim - dim % _LANES, _LANES):
            for lane in range(_LANES):
                gap = points[i, first + lane] - center[first + lane]
                sums[lane] += gap * gap
        total = 0.0
        for lane in range(_LANES):
            total += sums[lane]
        for j in range(dim - dim % _LANES, dim):
            gap = points[i, j] - center[j]
            total += gap * gap
        found[i] = total
    return found
