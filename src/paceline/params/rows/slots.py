"""From a batch's ids to what is sent to each slot.

::

    ids             7 7 3 9 3
    unique_ids      7 3 9         first seen first; inverse 0 0 1 2 1
    slots           1 0 1         a mixed hash of (table, id)
    group_by_slot   order 1 0 2   slots (0, 1), counts (1, 2): 3 | 7 9

``unique[order]`` is cut by ``counts`` into what each slot gets. Every array of ids is
int64, shape (n,), C-contiguous; it may be empty, read-only or unaligned.

Pure; any thread may call.
"""

import numpy as np

from paceline.params.rows.compiled import Float32s, Int64s, kernels
from paceline.params.rows.id_map import empty_cells


def unique_ids(ids: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ids in first-seen order, and for each id its index among them.

    ``unique[inverse]`` equals ``ids``.
    """
    unique = np.empty(len(ids), np.int64)
    inverse = np.empty(len(ids), np.int64)
    count = kernels.find_or_insert(empty_cells(len(ids)), ids, unique, 0, inverse)
    return unique[:count], inverse


def sum_duplicates(inverse: Int64s, gradients: Float32s, num_unique: int) -> Float32s:
    """Sum the gradients of equal ids, in the order of the batch: the same bits each time.

    Args:
        inverse: int64 (n,), from `unique_ids`.
        gradients: float32 (n, dim), not changed.
        num_unique: how many distinct ids there are.

    Returns:
        Float32 (num_unique, dim), in the order of the distinct ids.
    """
    sums = np.zeros((num_unique, gradients.shape[1]), np.float32)
    kernels.sum_duplicates(inverse, gradients, sums)
    return sums


def slot_of(table_key: int, ids: Int64s, num_slots: int) -> Int64s:
    """The slot of each id, int64 (n,) in ``0..num_slots-1``.

    ``table_key`` is `paceline.params.rows.initial.table_key` of the table's name.
    """
    slots = np.empty(len(ids), np.int64)
    kernels.slot_of(np.uint64(table_key), ids, np.uint64(num_slots), slots)
    return slots


def group_by_slot(
    ids: Int64s, table_key: int, num_slots: int
) -> tuple[Int64s, tuple[int, ...], tuple[int, ...]]:
    """Group ids by slot.

    Returns:
        order: int64 (n,): positions of ``ids``, by slot; within a slot as they came.
        slots: the slots that occur, ascending, each in ``0..num_slots-1``.
        counts: how many ids each of them has.
    """
    counts = np.zeros(num_slots, np.int64)
    order = np.empty(len(ids), np.int64)
    kernels.group_by_slot(slot_of(table_key, ids, num_slots), counts, order)
    occurring = np.flatnonzero(counts)
    return order, tuple(occurring.tolist()), tuple(counts[occurring].tolist())
