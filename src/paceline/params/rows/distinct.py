"""From a batch's ids to distinct ones, and the sums of their gradients.

::

    ids           7 7 3 9 3
    unique_ids    7 3 9         first seen first; inverse 0 0 1 2 1

    positions     1 0           slot 0 comes second, slot 1 first
    distinct_ids  3 | 7 9       counts 1 2: 3 lies in slot 1, 7 and 9 in slot 0
    inverse       1 1 0 2 0     distinct[inverse] == ids

The slot of an id is a mixed hash of (table, id). A trainer does this for every batch:
nothing is put into an order twice. Every array of ids is int64, (n,), C-contiguous; it may
be empty, read-only or unaligned.

Pure; any thread may call.
"""

from typing import NamedTuple

import numpy as np

from paceline.params.rows import compiled
from paceline.params.rows.compiled import Float32s, Int64s

_LONGEST = 2**31 - 1


class Distinct(NamedTuple):
    """Distinct ids by position, within a position as they were first seen."""

    ids: Int64s  # (n,)
    inverse: Int64s  # (all ids,): where in ``ids`` each lies
    counts: Int64s  # (positions,): how many have each position


def unique_ids(ids: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ids in first-seen order, and for each id its index among them.

    ``unique[inverse]`` equals ``ids``. The map holds numbers of 32 bits and stays in the
    processor's cache.
    """
    num_ids = len(ids)
    assert num_ids <= _LONGEST, "a batch's ids are numbered by 32 bits"
    cells = np.empty(1 << max(4, (2 * num_ids).bit_length()), np.int32)
    seen, inverse = np.empty(num_ids + 1, np.int64), np.empty(num_ids, np.int64)
    count = compiled.distinct_kernels.number_ids(ids, cells, seen, inverse)
    return seen[1 : count + 1], inverse


def distinct_ids(ids: Int64s, table_key: int, positions: Int64s) -> Distinct:
    """Find the distinct ids, in the order of their slots' positions, a permutation."""
    seen, inverse = unique_ids(ids)
    distinct, places = np.empty(len(seen), np.int64), np.empty(len(seen), np.int32)
    counts = np.zeros(len(positions), np.int64)
    group = compiled.distinct_kernels.group_by_position
    group(seen, np.uint64(table_key), positions, places, counts, distinct, inverse)
    return Distinct(distinct, inverse, counts)


def sum_duplicates(inverse: Int64s, gradients: Float32s, num_unique: int) -> Float32s:
    """Sum the gradients of equal ids, in the order of the batch: the same bits each time.

    ``inverse`` is that of `unique_ids`, and so is the order of the (num_unique, dim) sums.
    """
    sums = np.zeros((num_unique, gradients.shape[1]), np.float32)
    compiled.kernels.sum_duplicates(inverse, gradients, sums)
    return sums
