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

from paceline.params.rows import compiled
from paceline.params.rows.compiled import Int64s

_LONGEST = 2**31 - 1


class Distinct(NamedTuple):
    """Distinct ids by position, within a position as they were first seen."""

    ids: Int64s  # (n,)
    inverse: Int64s  # (all ids,): where in ``ids`` each lies
    counts: Int64s  # (positions,): how many have each position


def distinct_ids(ids: Int64s, table_key: int, positions: Int64s) -> Distinct:
    """Find the distinct ids, in the order of their slots' positions, a permutation.

    Ids (n,) may be empty, read-only or unaligned.
    """
    num_ids = len(ids)
    assert num_ids <= _LONGEST, "a batch's ids are numbered by 32 bits"
    cells = np.empty(1 << max(4, (2 * num_ids).bit_length()), np.int32)
    seen, inverse = np.empty(num_ids + 1, np.int64), np.empty(num_ids, np.int64)
    loops = compiled.distinct_kernels
    count = loops.number_ids(ids, cells, seen, inverse)
    distinct, places = np.empty(count, np.int64), np.empty(count, np.int32)
    counts = np.zeros(len(positions), np.int64)
    key = np.uint64(table_key)
    seen = seen[1 : count + 1]
    loops.group_by_position(seen, key, positions, places, counts, distinct, inverse)
    return Distinct(distinct, inverse, counts)
