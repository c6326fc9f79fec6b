"""The compiled loops of the row path: hashing, id map, new rows, optimizers, grouping.

Each has one signature and is compiled when this module is first imported, then read from
numba's cache (``python -m paceline.params.rows.kernels`` warms it). They release the
GIL, start no threads, and use no fast-math: sums are in the order of the loop.
`reference` holds the same functions in plain NumPy.

Arguments that may lie in a received or to-be-sent frame may be read-only or unaligned.
Nothing here checks a shape or an index: callers do.

Pure: callers keep two calls from writing to the same arrays.

Sources: splitmix64 (Steele, Lea, Flood 2014) as mixer and counter-based generator;
Box and Muller 1958; Adagrad (Duchi, Hazan, Singer 2011), with one sum a row as in FBGEMM;
Adam (Kingma, Ba 2015, Algorithm 1); FTRL-Proximal (McMahan et al. 2013, Algorithm 1).
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from paceline.params.rows.prefetch import AHEAD, prefetch

Int64s = NDArray[np.int64]
Float32s = NDArray[np.float32]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Positions in an id map and slots are drawn from one mixer. Were they the same draw, all
# ids of a slot would agree in their low bits and crowd a 16th of the map.
_MAP_SALT = np.uint64(0xD1B54A32D192ED03)

_IDS = types.Array(types.int64, 1, "C", readonly=True, aligned=False)
_GRADIENTS = types.Array(types.float32, 2, "C", readonly=True, aligned=False)
_OUT = types.Array(types.float32, 2, "C", aligned=False)
_CELLS = types.int64[:, ::1]
_INDEXES = types.int64[::1]
_VALUES = types.float32[:, ::1]
_FOUR_FLOAT32 = types.UniTuple(types.float32, 4)
_FOUR_FLOAT64 = types.UniTuple(types.float64, 4)


def _compiled(signature: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401  # numba's door: it types what it compiles
    compiled: Callable[[Callable[..., Any]], Any] = numba.njit(
        [signature], cache=True, nogil=True, error_model="numpy"
    )
    return compiled


# ------------------------------------------------------------------------- hashing


@_compiled(types.uint64(types.uint64))
def mix64(x: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit stirs all output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_compiled(types.void(types.uint64, _IDS, types.uint64, _INDEXES))
def slot_of(key: np.uint64, ids: Int64s, num_slots: np.uint64, slots: Int64s) -> None:
    """Draw the slot of each id of the table with this key."""
    for i in range(len(ids)):
        slots[i] = mix64(np.uint64(ids[i]) ^ key) % num_slots


@_compiled(types.void(_INDEXES, _INDEXES, _INDEXES))
def group_by_slot(slots: Int64s, counts: Int64s, order: Int64s) -> None:
    """Counting sort: ``order`` lists positions by slot, stably; ``counts`` per slot.

    ``counts`` comes in as zeros, one per slot.
    """
    for slot in slots:
        counts[slot] += 1
    next_place = np.empty_like(counts)
    total = 0
    for slot in range(len(counts)):
        next_place[slot] = total
        total += counts[slot]
    for i in range(len(slots)):
        order[next_place[slots[i]]] = i
        next_place[slots[i]] += 1


# ------------------------------------------------------------------------- id map
#
# A map is `cells`, shape (capacity, 2), capacity a power of two: (id, row), row -1 when
# the cell is empty. Id and row lie together: a lookup touches one cache line.


@_compiled(types.void(_CELLS, _IDS, _INDEXES))
def find(cells: Int64s, ids: Int64s, rows: Int64s) -> None:
    """Look ids up; -1 where unknown."""
    mask = np.uint64(len(cells) - 1)
    for i in range(len(ids)):
        if i + AHEAD < len(ids):
            soon = mix64(np.uint64(ids[i + AHEAD]) ^ _MAP_SALT) & mask
            prefetch(cells, np.int64(soon))
        at = mix64(np.uint64(ids[i]) ^ _MAP_SALT) & mask
        while cells[at, 1] >= 0 and cells[at, 0] != ids[i]:
            at = (at + np.uint64(1)) & mask
        rows[i] = cells[at, 1]


@_compiled(types.int64(_CELLS, _IDS, _INDEXES, types.int64, _INDEXES))
def find_or_insert(
    cells: Int64s, ids: Int64s, known: Int64s, count: int, rows: Int64s
) -> int:
    """Look ids up; an unknown one gets the next row, from ``count`` on.

    ``known[row]`` becomes the id of each new row. Returns the new count. Cells and
    ``known`` must have room for all ids being new, and one cell must stay empty.
    """
    mask = np.uint64(len(cells) - 1)
    for i in range(len(ids)):
        if i + AHEAD < len(ids):
            soon = mix64(np.uint64(ids[i + AHEAD]) ^ _MAP_SALT) & mask
            prefetch(cells, np.int64(soon))
        at = mix64(np.uint64(ids[i]) ^ _MAP_SALT) & mask
        while cells[at, 1] >= 0 and cells[at, 0] != ids[i]:
            at = (at + np.uint64(1)) & mask
        if cells[at, 1] < 0:
            cells[at, 0] = ids[i]
            cells[at, 1] = count
            known[count] = ids[i]
            count += 1
        rows[i] = cells[at, 1]
    return count


# ------------------------------------------------------------------------- new rows
#
# Element j of a row is draw j of the splitmix64 stream that starts at
# mix64(id ^ key), key a mix of seed and table.


@_compiled(types.void(types.uint64, _IDS, types.float32, _OUT))
def draw_uniform(key: np.uint64, ids: Int64s, bound: np.float32, out: Float32s) -> None:
    """Fill ``out`` (n, dim) with ``bound * u``, u uniform in [-1, 1) on a grid of 2^-23."""
    for i in range(len(ids)):
        state = mix64(np.uint64(ids[i]) ^ key)
        for j in range(out.shape[1]):
            state += _GOLDEN
            steps = np.int64(mix64(state) >> np.uint64(40)) - 2**23
            out[i, j] = bound * (np.float32(steps) * np.float32(2.0**-23))


@_compiled(types.void(types.uint64, _IDS, types.float64, _OUT))
def draw_normal(key: np.uint64, ids: Int64s, std: float, out: Float32s) -> None:
    """Fill ``out`` (n, dim) with normal draws: two by Box-Muller from two uniform ones.

    ``r = std * sqrt(-2 ln u1)``, ``(r cos(2 pi u2), r sin(2 pi u2))``, u1 in (0, 1].
    """
    for i in range(len(ids)):
        state = mix64(np.uint64(ids[i]) ^ key)
        for j in range(0, out.shape[1], 2):
            state += _GOLDEN
            u1 = np.float64((mix64(state) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
            state += _GOLDEN
            u2 = np.float64(mix64(state) >> np.uint64(11)) * 2.0**-53
            r = std * math.sqrt(-2.0 * math.log(u1))
            out[i, j] = r * math.cos(2.0 * math.pi * u2)
            if j + 1 < out.shape[1]:
                out[i, j + 1] = r * math.sin(2.0 * math.pi * u2)


# ------------------------------------------------------------------------- values


@_compiled(types.void(_VALUES, _INDEXES, _OUT))
def gather(values: Float32s, rows: Int64s, out: Float32s) -> None:
    """Copy rows into ``out`` (n, dim); places of row -1 are left as they are."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
        if rows[i] >= 0:
            for j in range(values.shape[1]):
                out[i, j] = values[rows[i], j]


@_compiled(types.void(_INDEXES, _GRADIENTS, _VALUES))
def sum_duplicates(inverse: Int64s, gradients: Float32s, sums: Float32s) -> None:
    """Add gradient i to ``sums[inverse[i]]``, in the order of i."""
    for i in range(len(inverse)):
        for j in range(sums.shape[1]):
            sums[inverse[i], j] += gradients[i, j]


# ------------------------------------------------------------------------- optimizers
#
# One step on the given rows: ``rows`` (n,) distinct, gradient i (dim,) is of rows[i].
# Values and state are (rows made, dim), or (rows made, 1) for one number a row.


@_compiled(types.void(_VALUES, _INDEXES, _GRADIENTS, types.float32))
def sgd(values: Float32s, rows: Int64s, gradients: Float32s, lr: np.float32) -> None:
    """``w -= lr * g`` on the given rows."""
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            soon = rows[i + AHEAD]
            prefetch(values, soon)
        r = rows[i]
        for j in range(values.shape[1]):
            values[r, j] -= lr * gradients[i, j]


@_compiled(types.void(_VALUES, _VALUES, _INDEXES, _GRADIENTS, types.float32, types.float32))
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


@_compiled(types.void(_VALUES, _VALUES, _INDEXES, _GRADIENTS, types.float32, types.float32))
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


@_compiled(types.void(_VALUES, _VALUES, _INDEXES, _GRADIENTS, types.float32, types.float32))
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


@_compiled(
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


@_compiled(types.void(types.float64, types.float64, types.float64, _VALUES))
def adam_corrections(lr: float, b1: float, b2: float, corrections: Float32s) -> None:
    """Fill row t of ``corrections`` (n, 2) with what corrects the bias of step t >= 1."""
    for t in range(1, len(corrections)):
        rate, root = _adam_correction(lr, b1, b2, np.float64(t))
        corrections[t, 0], corrections[t, 1] = rate, root


@_compiled(
    types.void(
        _VALUES, _VALUES, _VALUES, _VALUES, _INDEXES, _GRADIENTS, _FOUR_FLOAT64, _VALUES
    )
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


@_compiled(types.void(_VALUES, _VALUES, _VALUES, _INDEXES, _GRADIENTS, _FOUR_FLOAT32))
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
