"""What is done in a turn at a slot, where turns run beside each other or together.

Waits for nothing. Any thread.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from paceline.messages.shared import Hyper
from paceline.params.codecs import Codec
from paceline.params.compensation import compensated
from paceline.params.dense import OptimizeBlock
from paceline.params.rows import Array, RowStep, ValueTable
from paceline.params.shard import ParameterShard, Table
from paceline.server.requests.contents import Int64s, RowGradients
from paceline.server.slots.merging import merge_blocks
from paceline.server.slots.queue import Action, BesideTurn
from paceline.server.slots.rounds import Contributed, sum_block, sum_rows, sum_sparse_block


class RowRead(NamedTuple):
    """Rows of a table for ids (n,), wanted at a place.

    Args:
        table: which rows.
        ids: of them.
        place: (n, dim) of the table's dtype, or bytes (n, those of a coded row).
        codec: how they travel; None: as they are.
    """

    table: Table
    ids: Int64s
    place: Array
    codec: Codec | None = None


def beside(read: Action) -> BesideTurn:
    """A turn that never has to be alone."""

    def attempt() -> bool:
        read()
        return True

    return BesideTurn(attempt, read)


def step_together(
    block: OptimizeBlock,
    kind: str,
    hyper: Hyper,
    gradients: Sequence[torch.Tensor],
) -> None:
    """Take one step of a dense block for the gradients of several pushes."""
    block.apply(merge_blocks(kind, gradients), hyper)


def read_rows(reads: Sequence[RowRead], *, create: bool) -> None:
    """Copy rows to their places; ``create`` makes those that there are none of."""
    for table, ids, place, codec in reads:
        if codec is None:
            table.gather_into(ids, create, place)
            continue
        values = np.empty((len(ids), table.dim), np.float32)
        table.gather_into(ids, create, values)
        codec.encode_rows(values, place.reshape(-1))


def read_made_rows(reads: Sequence[RowRead], *, create: bool) -> bool:
    """Read beside others; false if a row has to be made."""
    if create and any(one.table.lacks(one.ids) for one in reads):
        return False
    read_rows(reads, create=False)
    return True


def apply_block_round(
    block: OptimizeBlock, slot: int, contributed: Sequence[Contributed], hyper: Hyper
) -> None:
    """Take one step of a dense block for all of a round, if anybody has a gradient."""
    gradient = sum_block(slot, contributed)
    if gradient is not None:
        block.apply(gradient, hyper)


def apply_sparse_round(
    shard: ParameterShard, slot: int, contributed: Sequence[Contributed], hyper: Hyper
) -> None:
    """As `apply_block_round`, of a block with sparse gradients."""
    gradient = sum_sparse_block(slot, contributed)
    if gradient is not None:
        shard.apply_sparse(slot, gradient, hyper)


def apply_rows_round(
    shard: ParameterShard, slot: int, contributed: Sequence[Contributed], how: RowStep
) -> None:
    """Take one step of each table in a row slot that a round has rows of."""
    are_summed = not any(isinstance(table, ValueTable) for table in shard.tables(slot))
    rows = sum_rows(slot, contributed, are_summed=are_summed)
    apply_rows([shard.table(slot, one.table) for one in rows], rows, how)


def apply_rows(tables: Sequence[Table], rows: Sequence[RowGradients], how: RowStep) -> None:
    """Take one step of each table."""
    for table, (name, ids, gradients, replaces) in zip(tables, rows, strict=True):
        if isinstance(table, ValueTable):
            table.apply(ids, gradients, replaces=replaces)
        else:
            table.apply(ids, gradients, *how.of(name))


def apply_compensated(
    block: OptimizeBlock,
    gradient: torch.Tensor,
    then: torch.Tensor,
    factor: float,
    hyper: Hyper,
) -> None:
    """Take one step of a dense block on what its gradient would be by now."""
    block.apply(compensated(gradient, block.values, then, factor), hyper)
