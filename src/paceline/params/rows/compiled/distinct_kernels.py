"""The compiled loops of distinct ids: numbered as they come, then grouped by their slots.

`signatures` says how they are compiled; `paceline.params.rows.distinct` says what for.

Pure: callers keep two calls from writing to the same arrays.
"""

import numpy as np
from numba import types

from paceline.params.rows.compiled.arrays import Int32s, Int64s
from paceline.params.rows.compiled.kernels import mix64
from paceline.params.rows.compiled.signatures import IDS, INDEXES, compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SMALL = types.int32[::1]


@compiled(types.int64(IDS, _SMALL, INDEXES, INDEXES))
def number_ids(ids: Int64s, cells: Int32s, seen: Int64s, inverse: Int64s) -> int:
    """Number ids from 1 in the order of arrival; how many there are.

    ``seen[inverse + 1] == ids``; ``seen`` has one more place than there are ids.
    ``cells`` is to work in: a power of two, at least twice as many as ids.
    """
    # Fibonacci hashing (Knuth, TAOCP 3, 6.4): a cheap draw for a map that lives this long.
    shift = np.uint64(64)
    while np.uint64(1) << (np.uint64(64) - shift) < np.uint64(len(cells)):
        shift -= np.uint64(1)
    mask = np.uint64(len(cells) - 1)
    cells[:] = 0
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
