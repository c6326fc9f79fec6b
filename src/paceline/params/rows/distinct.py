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

import msgspec
import numpy as np

from paceline.params.rows import compiled
from paceline.params.rows.compiled import Float32s, Int64s

_LONGEST = 2**31 - 1


class Distinct(msgspec.Struct, frozen=True):
    """Distinct ids by position, within a position as they were first seen."""

    ids: Int64s  # (n,)
    inverse: Int64s  # (all ids,): where in ``ids`` each lies
    counts: Int64s  # (positions,): how many have each position


def unique_ids(ids: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ids in first-seen order, and for each id its index among them.

    ``unique[inverse]`` equals ``ids``.
    """
    assert len(ids) <= _LONGEST, "a batch's ids are numbered by 32 bits"
    found: tuple[Int64s, Int64s] = compiled.distinct_kernels.number_ids(ids)
    return found


def distinct_ids(ids: Int64s, table_key: int, positions: Int64s) -> Distinct:
    """Find the distinct ids, in the order of their slots' positions, a permutation."""
    assert len(ids) <= _LONGEST, "a batch's ids are numbered by 32 bits"
    return Distinct(
        *compiled.distinct_kernels.group_ids(ids, np.uint64(table_key), positions)
    )


def sum_duplicates(inverse: Int64s, gradients: Float32s, num_unique: int) -> Float32s:
    """Sum the gradients of equal ids, in the order of the batch: the same bits each time.

    ``inverse`` is that of `unique_ids`, and so is the order of the (num_unique, dim) sums.
    """
    sums = np.zeros((num_unique, gradients.shape[1]), np.float32)
    compiled.kernels.sum_duplicates(inverse, gradients, sums)
    return sums
