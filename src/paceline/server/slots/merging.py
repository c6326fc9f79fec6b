"""Several pushes that wait for one slot, as one update.

::

    SGD, ASGD         the sum of gradients     a step of the sum is as long as all steps
    any other rule    the mean of gradients    a step of the sum is hardly longer, but the
                                               squares that it keeps are

A mean is over the pushes that have a gradient: of a row, over those that touch it. So an
update moves a row that one push of ten touches as far as that push would.

Pure. Source: PaddlePaddle's communicator merges the gradients that wait for a parameter
likewise; in its experiment, word2vec under Adam is at accuracy 0.608 after five epochs with
the mean, and at 0.397 with the sum.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from paceline.config import SGD, RowOptimizer
from paceline.messages.shared import Hyper
from paceline.params.bundle import Bundle
from paceline.params.dense import weighted_sum
from paceline.params.rows import RowStep, ValueTable, sum_duplicates, unique_ids
from paceline.params.shard import ParameterShard
from paceline.params.sparse import SparseGradient, sum_sparse
from paceline.server.requests.contents import RowGradients

SUMMED_OPTIMIZERS: Final = ("SGD", "ASGD")


def merge_blocks(kind: str, gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """One gradient (n,) of a dense block for many, in the order given; none is changed.

    A single one is returned as it is.
    """
    weight = 1.0 if kind in SUMMED_OPTIMIZERS else 1.0 / len(gradients)
    return weighted_sum(gradients, [weight] * len(gradients))


def merge_sparse(kind: str, gradients: Sequence[SparseGradient]) -> SparseGradient:
    """As `merge_blocks`, for gradients of rows of a block."""
    total = sum_sparse(gradients, [1.0] * len(gradients))
    if len(gradients) == 1 or kind in SUMMED_OPTIMIZERS:
        return total
    touched = torch.cat([gradient.rows for gradient in gradients])
    counts = torch.searchsorted(total.rows, touched).bincount(minlength=len(total.rows))
    return SparseGradient(total.rows, total.values / counts.to(total.values.dtype)[:, None])


def merge_rows(optimizer: RowOptimizer, gradients: Sequence[RowGradients]) -> RowGradients:
    """As `merge_blocks`, for gradients of one table's rows."""
    if len(gradients) == 1:
        return gradients[0]
    ids, inverse = unique_ids(np.concatenate([one.ids for one in gradients]))
    every = np.concatenate([one.gradients for one in gradients])
    total = sum_duplicates(inverse, every, len(ids))
    if not isinstance(optimizer, SGD):
        total /= np.bincount(inverse, minlength=len(ids)).astype(np.float32)[:, None]
    return RowGradients(gradients[0].table, ids, total)


def step_block(
    bundle: Bundle, kind: str, hyper: Hyper, gradients: Sequence[torch.Tensor]
) -> None:
    """Take one step of a bundle of one block for the gradients of several pushes."""
    bundle.apply({bundle.lead: merge_blocks(kind, gradients)}, hyper)


def step_sparse(
    shard: ParameterShard,
    slot: int,
    kind: str,
    hyper: Hyper,
    pushes: Sequence[SparseGradient],
) -> None:
    """Take one step of a block with sparse gradients for those of several pushes."""
    shard.apply_sparse(slot, merge_sparse(kind, pushes), hyper)


def step_tables(
    shard: ParameterShard,
    slot: int,
    how: RowStep,
    pushes: Sequence[Sequence[RowGradients]],
) -> None:
    """Take one step of each table in a row slot for the gradients of several pushes."""
    by_table: dict[str, list[RowGradients]] = {}
    for rows in pushes:
        for one in rows:
            by_table.setdefault(one.table, []).append(one)
    for name, found in by_table.items():
        table = shard.rows[slot][name]
        if isinstance(table, ValueTable):  # nothing is gained where nothing is learnt
            for one in found:
                table.apply(one.ids, one.gradients, replaces=one.replaces)
            continue
        merged = merge_rows(table.optimizer, found)
        table.apply(merged.ids, merged.gradients, *how.of(name))
