"""The compiled steps of row optimizers.

``rows`` (n,) are distinct, gradient i (dim,) is of rows[i]; values and state are (rows
made, dim), or (rows made, 1) for one number a row. `signatures` says how they are compiled.

Gradients may lie in a received frame, read-only or unaligned. Nothing here checks a shape
or an index: callers do.

Pure: callers keep two calls from writing to the same arrays.

Sources: Adagrad (Duchi, Hazan, Singer 2011), with one sum a row as in FBGEMM; Adam (Kingma,
Ba 2015, Algorithm 1), lazy as in `torch.optim.SparseAdam`; decoupled decay (Loshchilov,
Hutter 2019); FTRL-Proximal (McMahan et al. 2013, Algorithm 1).
"""

import math

import numpy as np
from numba import types

from paceline.params.rows.compiled.arrays import Float32s, Int64s
from paceline.params.rows.compiled.prefetch import AHEAD, prefetch
from paceline.params.rows.compiled.signatures import (
    GRADIENTS,
    INDEXES,
    VALUES,
    compiled,
)

_FOUR_FLOAT32 = types.UniTuple(types.float32, 4)
_FOUR_FLOAT64 = types.UniTuple(types.float64, 4)


@compiled(types.void(VALUES, INDEXES, GRADIENTS, types.float32))
def sgd(values: Float32s, rows: Int64s, gradients: Float32s, lr: np.float32) -> None:
    """``w -= lr * g`` on the given rows."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            values[r, j] -= lr * gradients[i, j]


@compiled(types.void(VALUES, VALUES, INDEXES, GRADIENTS, types.float32, types.float32))
def momentum(
    values: Float32s,
    buffers: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    mu: np.float32,
) -> None:
    """``m = mu*m + g; w -= lr * m`` on the given rows, m in ``buffers``."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(buffers, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            m = mu * buffers[r, j] + gradients[i, j]
            buffers[r, j] = m
            values[r, j] -= lr * m


@compiled(types.void(VALUES, VALUES, INDEXES, GRADIENTS, types.float32, types.float32))
def nesterov(
    values: Float32s,
    buffers: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    mu: np.float32,
) -> None:
    """``m = mu*m + g; w -= lr * (g + mu*m)`` on the given rows, m in ``buffers``."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(buffers, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            g = gradients[i, j]
            m = mu * buffers[r, j] + g
            buffers[r, j] = m
            values[r, j] -= lr * (g + mu * m)


@compiled(types.void(VALUES, INDEXES, GRADIENTS, types.float32, VALUES))
def decayed(
    values: Float32s,
    rows: Int64s,
    gradients: Float32s,
    decay: np.float32,
    out: Float32s,
) -> None:
    """``out = g + decay * w`` of the given rows, (n, dim): decay as a gradient."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            out[i, j] = gradients[i, j] + decay * values[r, j]


@compiled(types.void(VALUES, INDEXES, types.float32))
def shrink(values: Float32s, rows: Int64s, kept: np.float32) -> None:
    """``w *= kept`` on the given rows: decay apart from the gradient."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            values[r, j] *= kept


@compiled(types.void(VALUES, VALUES, INDEXES, GRADIENTS, types.float32, types.float32))
def adagrad(
    values: Float32s,
    sums: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    eps: np.float32,
) -> None:
    """``G += g*g; w -= lr * (g / (sqrt(G) + eps))`` on the given rows (Duchi 2011)."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(sums, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            g = gradients[i, j]
            total = sums[r, j] + g * g
            sums[r, j] = total
            values[r, j] -= lr * (g / (math.sqrt(total) + eps))


@compiled(types.void(VALUES, VALUES, INDEXES, GRADIENTS, types.float32, types.float32))
def row_wise_adagrad(
    values: Float32s,
    row_sums: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    eps: np.float32,
) -> None:
    """``G += mean(g*g); w -= lr * (g / (sqrt(G) + eps))``, G one number a row."""
    dim = values.shape[1]
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(row_sums, soon)
        squares = np.float32(0)
        for j in range(dim):
            squares += gradients[i, j] * gradients[i, j]
        r = rows[i]
        row_sums[r, 0] += squares / np.float32(dim)
        scale = math.sqrt(row_sums[r, 0]) + eps
        for j in range(dim):
            values[r, j] -= lr * (gradients[i, j] / scale)


@compiled(
    types.UniTuple(types.float32, 2)(
        types.float64, types.float64, types.float64, types.float64
    )
)
def _adam_correction(
    lr: float, b1: float, b2: float, t: float
) -> tuple[np.float32, np.float32]:
    """``lr / (1 - b1^t)`` and ``sqrt(1 - b2^t)``: what corrects the bias of step t."""
    rate = np.float32(lr / (1 - math.pow(b1, t)))
    return rate, np.float32(math.sqrt(1 - math.pow(b2, t)))


@compiled(types.void(types.float64, types.float64, types.float64, VALUES))
def adam_corrections(lr: float, b1: float, b2: float, corrections: Float32s) -> None:
    """Fill row t of ``corrections`` (n, 2) with what corrects the bias of step t >= 1."""
    for t in range(1, len(corrections)):
        rate, root = _adam_correction(lr, b1, b2, np.float64(t))
        corrections[t, 0], corrections[t, 1] = rate, root


@compiled(
    types.void(VALUES, VALUES, VALUES, VALUES, INDEXES, GRADIENTS, _FOUR_FLOAT64, VALUES)
)
def adam(  # noqa: PLR0913  (a row has that much state)
    values: Float32s,
    exp_avg: Float32s,
    exp_avg_sq: Float32s,
    steps: Float32s,
    rows: Int64s,
    gradients: Float32s,
    hyper: tuple[float, float, float, float],
    corrections: Float32s,
) -> None:
    """``w -= lr * m_hat / (sqrt(v_hat) + eps)``, with a step count t for each row.

    ``m += (1 - b1) * (g - m); v += (1 - b2) * (g*g - v)``, m in ``exp_avg``, v in
    ``exp_avg_sq``; ``m_hat = m / (1 - b1^t); v_hat = v / (1 - b2^t)``.

    ``hyper`` is (lr, b1, b2, eps). t is a float32 in ``steps`` (rows made, 1) and stays at
    2^24, where nothing is left to correct unless b2 > 1 - 1e-6. ``corrections`` are those
    of `adam_corrections` for the first steps: two powers a row cost more than all the rest.
    """
    lr, b1, b2, eps = hyper
    # Rounded once, here: 1 - b2 of a rounded b2 would be off by 1e-5 of itself.
    new1, new2, eps32 = np.float32(1 - b1), np.float32(1 - b2), np.float32(eps)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(exp_avg, soon)
            prefetch(exp_avg_sq, soon)
            prefetch(steps, soon)
        r = rows[i]
        t = steps[r, 0] + np.float32(1)
        steps[r, 0] = t
        if t < len(corrections):
            rate, root = corrections[np.int64(t), 0], corrections[np.int64(t), 1]
        else:
            rate, root = _adam_correction(lr, b1, b2, np.float64(t))
        for j in range(values.shape[1]):
            g = gradients[i, j]
            m = exp_avg[r, j]
            v = exp_avg_sq[r, j]
            m += new1 * (g - m)
            v += new2 * (g * g - v)
            exp_avg[r, j] = m
            exp_avg_sq[r, j] = v
            values[r, j] -= rate * (m / (math.sqrt(v) / root + eps32))


# A step of all rows at the same step count, in two halves: between them the caller takes
# the root of v, by torch. Its root is not always the nearest float32, and is SparseAdam's.


@compiled(
    types.void(VALUES, VALUES, INDEXES, GRADIENTS, types.float64, types.float64, VALUES)
)
def adam_moments(
    exp_avg: Float32s,
    exp_avg_sq: Float32s,
    rows: Int64s,
    gradients: Float32s,
    b1: float,
    b2: float,
    found: Float32s,
) -> None:
    """``m += (1 - b1) * (g - m); v += (1 - b2) * (g*g - v)``; ``found`` (n, dim) gets v.

    What is new of each is rounded once, as in `adam`.
    """
    new1, new2 = np.float32(1 - b1), np.float32(1 - b2)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(exp_avg, soon)
            prefetch(exp_avg_sq, soon)
        r = rows[i]
        for j in range(exp_avg.shape[1]):
            g = gradients[i, j]
            m = exp_avg[r, j]
            v = exp_avg_sq[r, j]
            m += new1 * (g - m)
            v += new2 * (g * g - v)
            exp_avg[r, j] = m
            exp_avg_sq[r, j] = v
            found[i, j] = v


@compiled(
    types.void(VALUES, VALUES, INDEXES, VALUES, types.float64, types.float64, types.float64)
)
def adam_move(
    values: Float32s,
    exp_avg: Float32s,
    rows: Int64s,
    roots: Float32s,
    rate: float,
    root: float,
    eps: float,
) -> None:
    """``w -= rate * (m / (sqrt(v) / root + eps))``, sqrt(v) in ``roots`` (n, dim).

    Rate and root correct the bias of the step; all three are rounded here.
    """
    rate32, root32, eps32 = np.float32(rate), np.float32(root), np.float32(eps)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(exp_avg, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            values[r, j] -= rate32 * (exp_avg[r, j] / (roots[i, j] / root32 + eps32))


@compiled(types.void(VALUES, VALUES, VALUES, INDEXES, GRADIENTS, _FOUR_FLOAT32))
def ftrl(
    values: Float32s,
    z: Float32s,
    n: Float32s,
    rows: Int64s,
    gradients: Float32s,
    hyper: tuple[np.float32, np.float32, np.float32, np.float32],
) -> None:
    """FTRL-Proximal; ``hyper`` is (alpha, beta, lambda1, lambda2).

    ``sigma = (sqrt(n + g*g) - sqrt(n)) / alpha; z += g - sigma*w; n += g*g``;
    ``w = 0`` if ``|z| <= lambda1``,
    else ``-(z - sign(z)*lambda1) / ((beta + sqrt(n))/alpha + lambda2)``.
    """
    alpha, beta, lambda1, lambda2 = hyper
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
            prefetch(z, soon)
            prefetch(n, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            g = gradients[i, j]
            # As a difference, although g*g / (sum of the roots) would be more exact: the
            # sigmas must add up to the root of the n that is stored, or w drifts.
            before = math.sqrt(n[r, j])
            n[r, j] += g * g
            after = math.sqrt(n[r, j])
            z[r, j] += g - (after - before) / alpha * values[r, j]
            if abs(z[r, j]) <= lambda1:
                values[r, j] = np.float32(0)
            else:
                distance = z[r, j] - math.copysign(lambda1, z[r, j])
                values[r, j] = -distance / ((beta + after) / alpha + lambda2)
