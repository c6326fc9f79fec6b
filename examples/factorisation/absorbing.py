"""Coordinate descent of a row whose ratings come in pieces: sums first, then the descent.

Of a row's ratings, its best values depend on three sums alone, which can be added up in any
order, by anyone. With x the other side's row, its bias put to 1, and y = rating - mean -
other's bias::

    a row is   [row (k + 1) | n | sum of x y (k + 1) | sum of x x^T, a triangle of it]

Descending in these sums takes the same steps as descending along the ratings (`descent`),
up to rounding.

Compiled as `descent` is.
"""

import numpy as np
from descent import Float32s, Int64s, compiled


def absorbing_width(width: int) -> int:
    """Numbers of a row of ``width``, with its sums."""
    return width + 1 + width + width * (width + 1) // 2


@compiled
def absorb(
    rows: Float32s,
    fixed: Float32s,
    places: Int64s,
    others: Int64s,
    values: Float32s,
    mean: np.float32,
) -> None:
    """Add ratings to the sums of rows, in place.

    Args:
        rows: with sums ``(m, absorbing_width(k + 1))``.
        fixed: rows of the other kind ``(n, at least k + 1)``.
        places: the row in ``rows`` of each rating.
        others: the row in ``fixed`` of each rating.
        values: the ratings.
        mean: of all ratings that are learned from.
    """
    d = _width(rows.shape[1])
    for n in range(len(values)):
        row, x = rows[places[n]], fixed[others[n]]
        y = values[n] - mean - x[d - 1]
        row[d] += np.float32(1)
        for t in range(d - 1):
            row[d + 1 + t] += x[t] * y
        row[d + d] += y
        at = 2 * d + 1
        for t in range(d - 1):
            for s in range(t + 1):
                row[at + s] += x[t] * x[s]
            at += t + 1
        for s in range(d - 1):
            row[at + s] += x[s]
        row[at + d - 1] += np.float32(1)


@compiled
def settle(rows: Float32s, d: int, penalty: np.float32) -> None:
    """Each number of each row at its best, one by one; the sums are zeros again, in place.

    Rows that have absorbed nothing stay as they are.

    Args:
        rows: with sums.
        d: numbers of a row without.
        penalty: of each rating on the numbers of its two rows.
    """
    for m in range(len(rows)):
        row = rows[m]
        count = row[d]
        if count == 0:
            continue
        for t in range(d):
            above = row[d + 1 + t]
            for s in range(d):
                if s != t:
                    low, high = min(s, t), max(s, t)
                    above -= row[2 * d + 1 + high * (high + 1) // 2 + low] * row[s]
            below = row[2 * d + 1 + t * (t + 1) // 2 + t]
            row[t] = above / (penalty * count + below)
        row[d:] = 0


@compiled
def _width(absorbing: int) -> int:
    d = 1
    while d + 1 + d + d * (d + 1) // 2 < absorbing:
        d += 1
    return d
