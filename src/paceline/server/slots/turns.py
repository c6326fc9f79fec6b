"""Turns at a slot, and what is done in one.

Waits for nothing. Any thread.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from paceline.messages.shared import Hyper
from paceline.params.compensation import compensated
from paceline.params.dense import OptimizeBlock
from paceline.params.rows import RowStep, ValueTable
from paceline.params.shard import ParameterShard, Table
from paceline.server.requests.contents import RowGradients
from paceline.server.slots.merging import merge_blocks
from paceline.server.slots.rounds import Contributed, sum_block, sum_rows, sum_sparse_block

Action = Callable[[], object]


def nothing() -> None:
    """An action that does nothing."""


class BesideTurn(NamedTuple):
    """A turn that may run beside others of its kind.

    ``attempt`` returns false if it must be alone, with nothing changed; ``alone`` is what
    runs then, by itself. One of the two has its effect.
    """

    attempt: Callable[[], bool]
    alone: Action


class Joint(NamedTuple):
    """A turn alone that may be one with those right behind it.

    ``together`` runs the ``numbers`` of all of them, in order. They must be equal in
    ``kind``; they are ``most`` at a time.
    """

    numbers: Any  # what ``together`` takes
    together: Callable[[list[Any]], None]
    kind: object
    most: int


Turn = Action | BesideTurn | Joint


def step_together(
    block: OptimizeBlock,
    kind: str,
    hyper: Hyper,
    gradients: Sequence[torch.Tensor],
) -> None:
    """Take one step of a dense block for the gradients of several pushes."""
    block.apply(merge_blocks(kind, gradients), hyper)


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
