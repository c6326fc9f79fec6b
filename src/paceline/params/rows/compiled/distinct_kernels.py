"""The compiled loops of distinct ids: numbered as they come, then grouped by their slots.

`signatures` says how they are compiled; `paceline.params.rows.distinct` says what for.

Pure: callers keep two calls from writing to the same arrays.
"""

import numpy as np
from numba import types

from paceline.params.rows.compiled.arrays import Int64s
from paceline.params.rows.compiled.kernels import mix64
from paceline.params.rows.compiled.signatures import IDS, INDEXES, compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled(types.UniTuple(INDEXES, 2)(IDS))
def number_ids(ids: Int64s) -> tuple[Int64s, Int64s]:
    """Number ids in the order of arrival: ``seen`` and ``inverse``.

    ``seen[inverse] == ids``. The numbers are of 32 bits, and so few of them stay in the
    processor's cache.
    """
    # Fibonacci hashing (Knuth, TAOCP 3, 6.4): a cheap draw for a map that lives this long.
    size, shift = 16, np.uint64(60)
    while size < 2 * len(ids):
        size, shift = 2 * size, shift - np.uint64(1)
    mask = np.uint64(size - 1)
    cells = np.zeros(size, np.int32)  # numbers from 1
    seen, inverse = np.empty(len(ids) + 1, np.int64), np.empty(len(ids), np.int64)
    count = np.int32(0)
    for i in range(len(ids)):
        one = ids[i]
        # No branch for what is new, which nobody could guess of a batch's ids: an empty
        # cell looks as if the id had been there.
        seen[0] = one
        at = (np.uint64(one) * _GOLDEN) >> shift
        found = cells[at]
        while seen[np.uint32(found)] != one:
            at = (at + np.uint64(1)) & mask
            found = cells[at]
        is_new = np.int32(found == 0)
        count += is_new
        found += is_new * count
        cells[at] = found
        seen[np.uint32(found)] = one
        inverse[i] = found - 1
    return seen[1 : count + 1], inverse


@compiled(types.UniTuple(INDEXES, 3)(IDS, types.uint64, INDEXES))
def group_ids(
    ids: Int64s, key: np.uint64, positions: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """`number_ids`, in the order of the positions of slots; how many have each position."""
    seen, inverse = number_ids(ids)
    num_slots = np.uint64(len(positions))
    last = num_slots - np.uint64(1)
    is_power = num_slots & last == 0  # of two, as it is by default: no division needed
    places, counts = np.empty(len(seen), np.int32), np.zeros(len(positions), np.int64)
    for i in range(len(seen)):
        draw = mix64(np.uint64(seen[i]) ^ key)
        position = positions[draw & last if is_power else draw % num_slots]
        places[i] = position
        counts[position] += 1
    ends, grouped = np.cumsum(counts), np.empty(len(seen), np.int64)
    for i in range(len(seen) - 1, -1, -1):
        position = places[i]
        ends[position] -= 1
        places[i] = ends[position]
        grouped[ends[position]] = seen[i]
    for i in range(len(inverse)):
        inverse[i] = places[inverse[i]]
    return grouped, inverse, counts
