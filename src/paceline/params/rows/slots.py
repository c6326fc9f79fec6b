"""From a batch's ids to distinct ones, and the sums of their gradients.

::

    ids             7 7 3 9 3
    unique_ids      7 3 9         first seen first; inverse 0 0 1 2 1

Every array of ids is int64, (n,), C-contiguous; it may be empty, read-only or unaligned.

Pure; any thread may call.
"""

import numpy as np

from paceline.params.rows import compiled
from paceline.params.rows.compiled import Float32s, Int64s
from paceline.params.rows.id_map import empty_cells


def unique_ids(ids: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ids in first-seen order, and for each id its index among them.

    ``unique[inverse]`` equals ``ids``.
    """
    unique = np.empty(len(ids), np.int64)
    inverse = np.empty(len(ids), np.int64)
    count = compiled.kernels.find_or_insert(empty_cells(len(ids)), ids, unique, 0, inverse)
    return unique[:count], inverse


def sum_duplicates(inverse: Int64s, gradients: Float32s, num_unique: int) -> Float32s:
    """Sum the gradients of equal ids, in the order of the batch: the same bits each time.

    ``inverse`` is that of `unique_ids`, and so is the order of the (num_unique, dim) sums.
    """
    sums = np.zeros((num_unique, gradients.shape[1]), np.float32)
    compiled.kernels.sum_duplicates(inverse, gradients, sums)
    return sums
