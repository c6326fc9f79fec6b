"""The distinct ids of a batch, grouped by where their slots are to come.

::

    ids         7 7 3 9 3
    positions   1 0           slot 0 comes second, slot 1 first
    distinct    3 | 7 9       counts 1 2: 3 lies in slot 1, 7 and 9 in slot 0
    inverse     1 1 0 2 0     distinct[inverse] == ids

The slot of an id is a mixed hash of (table, id). A trainer does this for every batch: the
map holds numbers of 32 bits and stays in the processor's cache, and nothing is put into an
order twice.

Pure; any thread may call.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from paceline.params.rows.compiled import IDS, INDEXES, Int64s, compiled, mix64

_LONGEST = 2**31 - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SMALL = types.int32[::1]
Int32s = NDArray[np.int32]


class Distinct(NamedTuple):
    """Distinct ids by position, within a position as they were first seen."""

    ids: Int64s  # (n,)
    inverse: Int64s  # (all ids,): where in ``ids`` each lies
    counts: Int64s  # (positions,): how many have each position


@compiled(types.int64(IDS, _SMALL, INDEXES, INDEXES))
def number_ids(ids: Int64s, cells: Int32s, seen: Int64s, inverse: Int64s) -> int:
    """Number ids in the order of arrival: ``seen[inverse] == ids``; how many there are.

    ``cells`` is to work in: a power of two, at least twice as many as ids.
    """
    # Fibonacci hashing (Knuth, TAOCP 3, 6.4): a cheap draw for a map that lives this long.
    shift = np.uint64(64)
    while np.uint64(1) << (np.uint64(64) - shift) < np.uint64(len(cells)):
        shift -= np.uint64(1)
    mask = np.uint64(len(cells) - 1)
    cells[:] = -1
    count = np.int32(0)
    for i in range(len(ids)):
        at = (np.uint64(ids[i]) * _GOLDEN) >> shift
        found = cells[at]
        while found >= 0 and seen[found] != ids[i]:
            at = (at + np.uint64(1)) & mask
            found = cells[at]
        # No branch for what is new: nobody could guess which of a batch's ids are.
        is_new = found < 0
        found = count if is_new else found
        cells[at] = found
        seen[found] = ids[i]
        count += np.int32(is_new)
        inverse[i] = found
    return int(count)


@compiled(types.void(INDEXES, types.uint64, INDEXES, _SMALL, INDEXES, INDEXES, INDEXES))
def group_by_position(
    seen: Int64s,
    key: np.uint64,
    positions: Int64s,
    places: Int32s,
    counts: Int64s,
    distinct: Int64s,
    inverse: Int64s,
) -> None:
    """Move ``seen`` to ``distinct``, by the positions of slots, and ``inverse`` along.

    ``places``, as long as ``seen``, is to work in; ``counts`` come in as zeros.
    """
    num_slots = np.uint64(len(positions))
    last = num_slots - np.uint64(1)
    is_power = num_slots & last == 0  # of two, as it is by default: no division needed
    for i in range(len(seen)):
        draw = mix64(np.uint64(seen[i]) ^ key)
        position = positions[draw & last if is_power else draw % num_slots]
        places[i] = position
        counts[position] += 1
    ends = np.cumsum(counts)
    for i in range(len(seen) - 1, -1, -1):
        position = places[i]
        ends[position] -= 1
        places[i] = ends[position]
        distinct[ends[position]] = seen[i]
    for i in range(len(inverse)):
        inverse[i] = places[inverse[i]]


def distinct_ids(ids: Int64s, table_key: int, positions: Int64s) -> Distinct:
    """Find the distinct ids, in the order of their slots' positions, a permutation.

    Ids (n,) may be empty, read-only or unaligned.
    """
    num_ids = len(ids)
    assert num_ids <= _LONGEST, "a batch's ids are numbered by 32 bits"
    cells = np.empty(1 << max(4, (2 * num_ids).bit_length()), np.int32)
    seen, inverse = np.empty(num_ids, np.int64), np.empty(num_ids, np.int64)
    count = number_ids(ids, cells, seen, inverse)
    distinct, places = np.empty(count, np.int64), np.empty(count, np.int32)
    counts = np.zeros(len(positions), np.int64)
    key = np.uint64(table_key)
    group_by_position(seen[:count], key, positions, places, counts, distinct, inverse)
    return Distinct(distinct, inverse, counts)
