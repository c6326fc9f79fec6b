"""The compiled loops of the row path: hashing, id map, new rows, sums.

`signatures` says how they are compiled, `step_kernels` has the steps of optimizers. The
tests hold both to the same functions in plain NumPy.

Arguments that may lie in a received or to-be-sent frame may be read-only or unaligned.
Nothing here checks a shape or an index: callers do.

Pure: callers keep two calls from writing to the same arrays.

Sources: splitmix64 (Steele, Lea, Flood 2014) as mixer and counter-based generator;
Box and Muller 1958.
"""

import math

import numpy as np
from numba import types

from paceline.params.rows.compiled.arrays import Float32s, Int64s
from paceline.params.rows.compiled.prefetch import AHEAD, prefetch
from paceline.params.rows.compiled.signatures import (
    CELLS,
    GRADIENTS,
    IDS,
    INDEXES,
    OUT,
    VALUES,
    compiled,
)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Positions in an id map and slots are drawn from one mixer. Were they the same draw, all
# ids of a slot would agree in their low bits and crowd a 16th of the map.
_MAP_SALT = np.uint64(0xD1B54A32D192ED03)


@compiled(types.uint64(types.uint64))
def mix64(x: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit stirs all output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# ------------------------------------------------------------------------- id map
#
# A map is `cells`, shape (capacity, 2), capacity a power of two: (id, row), row -1 when
# the cell is empty. Id and row lie together: a lookup touches one cache line.


@compiled(types.uint64(CELLS, types.int64, types.uint64))
def _cell_of(cells: Int64s, one: int, mask: np.uint64) -> np.uint64:
    """The cell of an id, which is empty if it is unknown."""
    at: np.uint64 = mix64(np.uint64(one) ^ _MAP_SALT) & mask
    while cells[at, 1] >= 0 and cells[at, 0] != one:
        at = (at + np.uint64(1)) & mask
    return at


@compiled(types.int64(CELLS, IDS, INDEXES))
def find(cells: Int64s, ids: Int64s, rows: Int64s) -> int:
    """Look ids up; -1 where unknown. How many those are."""
    mask = np.uint64(len(cells) - 1)
    unknown = 0
    for i in range(len(ids)):
        if i + AHEAD < len(ids):
            soon = mix64(np.uint64(ids[i + AHEAD]) ^ _MAP_SALT) & mask
            prefetch(cells, np.int64(soon))
        at = _cell_of(cells, ids[i], mask)
        rows[i] = cells[at, 1]
        unknown += cells[at, 1] < 0
    return unknown


@compiled(types.int64(CELLS, IDS, INDEXES, types.int64, INDEXES))
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
        at = _cell_of(cells, ids[i], mask)
        if cells[at, 1] < 0:
            cells[at, 0] = ids[i]
            cells[at, 1] = count
            known[count] = ids[i]
            count += 1
        rows[i] = cells[at, 1]
    return count


@compiled(types.void(CELLS, IDS, INDEXES, INDEXES, INDEXES, INDEXES))
def insert_by_slot(
    cells: Int64s, ids: Int64s, ends: Int64s, known: Int64s, nexts: Int64s, rows: Int64s
) -> None:
    """`find_or_insert` of ids of several slots, each with rows of its own.

    The n-th slot has ``ids[ends[n]:ends[n + 1]]``; ``nexts[n]``, its next row, moves on.
    """
    for n in range(len(nexts)):
        start, stop = ends[n], ends[n + 1]
        nexts[n] = find_or_insert(cells, ids[start:stop], known, nexts[n], rows[start:stop])


# ------------------------------------------------------------------------- new rows
#
# Element j of a row is draw j of the splitmix64 stream that starts at
# mix64(id ^ key), key a mix of seed and table.


@compiled(types.void(types.uint64, IDS, types.float32, OUT))
def draw_uniform(key: np.uint64, ids: Int64s, bound: np.float32, out: Float32s) -> None:
    """Fill ``out`` (n, dim) with ``bound * u``, u uniform in [-1, 1) on a grid of 2^-23."""
    for i in range(len(ids)):
        state = mix64(np.uint64(ids[i]) ^ key)
        for j in range(out.shape[1]):
            state += _GOLDEN
            steps = np.int64(mix64(state) >> np.uint64(40)) - 2**23
            out[i, j] = bound * (np.float32(steps) * np.float32(2.0**-23))


@compiled(types.void(types.uint64, IDS, types.float64, OUT))
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


@compiled(types.void(VALUES, INDEXES, OUT))
def put(values: Float32s, rows: Int64s, out: Float32s) -> None:
    """Copy ``values`` (n, dim) to these rows of ``out``."""
    for i in range(len(rows)):
        r = rows[i]  # once: what is written could be the rows, for all the compiler knows
        for j in range(values.shape[1]):
            out[r, j] = values[i, j]


@compiled(types.int64(CELLS, IDS, VALUES, OUT, INDEXES))
def read(cells: Int64s, ids: Int64s, values: Float32s, out: Float32s, rows: Int64s) -> int:
    """Copy the row of each id into ``out`` (n, dim); how many are unknown.

    Their places are left as they are. It is `find` and a copy, but memory is asked for a
    row as soon as it is known which.
    """
    mask = np.uint64(len(cells) - 1)
    unknown = 0
    for i in range(len(ids)):
        if i + AHEAD < len(ids):
            soon = mix64(np.uint64(ids[i + AHEAD]) ^ _MAP_SALT) & mask
            prefetch(cells, np.int64(soon))
        at = _cell_of(cells, ids[i], mask)
        r = cells[at, 1]
        rows[i] = r
        if r >= 0:
            prefetch(values, r)
        else:
            unknown += 1
    for i in range(len(ids)):
        r = rows[i]
        if r >= 0:
            for j in range(values.shape[1]):
                out[i, j] = values[r, j]
    return unknown


@compiled(types.void(INDEXES, GRADIENTS, VALUES))
def sum_duplicates(inverse: Int64s, gradients: Float32s, sums: Float32s) -> None:
    """Add gradient i to ``sums[inverse[i]]``, in the order of i."""
    for i in range(len(inverse)):
        r = inverse[i]
        for j in range(sums.shape[1]):
            sums[r, j] += gradients[i, j]
