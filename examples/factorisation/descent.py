"""Matrix factorisation in compiled loops: steps along ratings, and one number at a time.

::

    a rating is   mean + b_u + b_i + p_u . q_i        a row is   [p_u, b_u]  or  [q_i, b_i]
    its loss is   (rating - that)^2 + penalty (|p_u|^2 + b_u^2 + |q_i|^2 + b_i^2)

Both methods bring down the same sum of losses. They know nothing of tables or trainers:
rows are arrays, which they change in place.

Compiled when first called, then read from numba's cache; the GIL is released.

Sources: Koren, Bell, Volinsky 2009 (`step_along`); Yu, Hsieh, Si, Dhillon 2012 (CCD and
CCD++, `descend`).
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Float32s = NDArray[np.float32]


def compiled(function: Callable[..., Any]) -> Any:  # noqa: ANN401  # numba's door
    """A function as numba compiles it for what it is first called with."""
    # Without fast-math a sum keeps the order of its loop, and no loop of sums is
    # vectorized: it is three times as slow.
    return numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")(function)


@compiled
def step_along(  # noqa: PLR0913  (a compiled loop is given arrays and numbers)
    p: Float32s,
    q: Float32s,
    users: Int64s,
    items: Int64s,
    values: Float32s,
    mean: np.float32,
    rate: np.float32,
    penalty: np.float32,
) -> None:
    """Stochastic gradient descent: one step for each rating, in their order, in place.

    Args:
        p: rows of users ``(m, k + 1)``; may be a part of the same array as ``q``.
        q: rows of items ``(n, k + 1)``.
        users: the row in ``p`` of each rating.
        items: the row in ``q`` of each rating.
        values: the ratings.
        mean: of all ratings that are learned from.
        rate: the step's length.
        penalty: of each rating on the numbers of its two rows.
    """
    k = p.shape[1] - 1
    for n in range(len(values)):
        row, column = p[users[n]], q[items[n]]
        product = np.float32(0)
        for t in range(k):
            product += row[t] * column[t]
        error = values[n] - mean - row[k] - column[k] - product
        for t in range(k):
            before = row[t]
            row[t] += rate * (error * column[t] - penalty * before)
            column[t] += rate * (error * before - penalty * column[t])
        row[k] += rate * (error - penalty * row[k])
        column[k] += rate * (error - penalty * column[k])


@compiled
def descend(  # noqa: PLR0913  (as above)
    rows: Float32s,
    fixed: Float32s,
    starts: Int64s,
    others: Int64s,
    values: Float32s,
    mean: np.float32,
    penalty: np.float32,
    first: int,
    stop: int,
) -> None:
    """Coordinate descent: each number of each row at its best, one by one, in place.

    With ``first, stop = 0, k + 1`` this is half an iteration of CCD; with one number at a
    time, and users and items in turn, it is CCD++.

    Args:
        rows: the rows that change ``(m, k + 1)``; all ratings of them must be here.
        fixed: rows of the other kind ``(n, k + 1)``.
        starts: where the ratings of each row begin, and the end of all: ``(m + 1,)``.
        others: the row in ``fixed`` of each rating, row by row.
        values: the ratings, in the same order.
        mean: of all ratings that are learned from.
        penalty: of each rating on the numbers of its two rows.
        first: the first number of a row that changes.
        stop: behind the last one.
    """
    k = rows.shape[1] - 1
    for m in range(len(rows)):
        begin, end = starts[m], starts[m + 1]
        if begin == end:
            continue  # nothing is known of it: it stays as it began
        row = rows[m]
        errors = np.empty(end - begin, np.float32)
        for n in range(end - begin):
            column = fixed[others[begin + n]]
            product = np.float32(0)
            for t in range(k):
                product += row[t] * column[t]
            errors[n] = values[begin + n] - mean - row[k] - column[k] - product
        for t in range(first, stop):
            above, below = np.float32(0), np.float32(0)
            for n in range(end - begin):
                x = fixed[others[begin + n], t] if t < k else np.float32(1)
                above += errors[n] * x
                below += x * x
            best = (above + row[t] * below) / (penalty * (end - begin) + below)
            change = best - row[t]
            row[t] = best
            for n in range(end - begin):
                x = fixed[others[begin + n], t] if t < k else np.float32(1)
                errors[n] -= change * x


@compiled
def rmse(
    p: Float32s,
    q: Float32s,
    users: Int64s,
    items: Int64s,
    values: Float32s,
    mean: np.float32,
) -> float:
    """Root of the mean squared error of what the rows say; arguments as in `step_along`."""
    k = p.shape[1] - 1
    total = 0.0
    for n in range(len(values)):
        row, column = p[users[n]], q[items[n]]
        product = np.float32(0)
        for t in range(k):
            product += row[t] * column[t]
        error = values[n] - mean - row[k] - column[k] - product
        total += error * error
    return np.sqrt(total / len(values))
