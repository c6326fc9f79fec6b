"""The update of a round: one gradient per block and per row, from many.

::

    gradient = sum over contributors of weight * gradient, in the order of the round

A contributor without a gradient for a block counts as zero, and the weights stay as they
are; a block without any gradient is not touched. Rows, of tables and of blocks with sparse
gradients, are the union of the contributors'. The order is the same on every server and in
every run, so the bits are too.

Pure.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import torch

from paceline.errors import HyperDiffers
from paceline.messages.server import CommitRound
from paceline.messages.shared import Hyper
from paceline.params.bundle import Bundle
from paceline.params.dense import weighted_sum
from paceline.params.rows import RowStep, ValueTable, sum_duplicates, unique_ids
from paceline.params.shard import ParameterShard
from paceline.params.sparse import sum_sparse
from paceline.server.requests.contents import PushContents, RowGradients, TableGradients
from paceline.server.slots.turns import TableStep, apply_rows


class Contributed(msgspec.Struct, frozen=True):
    """A contributor's prepared push; only ``slots`` take it."""

    trainer: str
    weight: float
    slots: frozenset[int]
    contents: PushContents


def agreed_hyper(
    order: CommitRound,
    contributed: Sequence[Contributed],
    *,
    may_differ: bool = False,
    rows_follow: bool = False,
) -> tuple[Hyper, ...]:
    """The hyper-parameters of all contributors that have gradients that need them.

    Where a round does without some trainers, schedulers fall behind in those that were
    late; then they ``may_differ``, and the first contributor's are those of the round.
    Where ``rows_follow``, gradients of rows need them as well as dense ones.

    Raises:
        HyperDiffers: those of two trainers do; names both, and what differs.
    """
    first: Contributed | None = None
    for one in contributed:
        contents = one.contents
        if not (contents.blocks or contents.sparse or (rows_follow and contents.rows)):
            continue
        if first is None:
            first = one
        elif contents.hyper != first.contents.hyper and not may_differ:
            told = _differences(first.contents.hyper, one.contents.hyper)
            raise HyperDiffers(
                f"round {order.round} of part {order.part}: {first.trainer} and "
                f"{one.trainer} step with {told}, and one update has one of each. A "
                "scheduler that is stepped with each batch counts the batches of its own "
                "trainer, and trainers have unequally many: session.schedule(optimizer, "
                "factor) counts those of the job; or step it once an epoch, and "
                "session.track(scheduler=scheduler), so that a trainer that begins again "
                "goes on with its state"
            )
    return () if first is None else first.contents.hyper


def _differences(first: Sequence[Hyper], second: Sequence[Hyper]) -> str:
    """Which of them differ, in words; of many groups, those of the first that has some."""
    for group, (mine, theirs) in enumerate(zip(first, second, strict=False)):
        both = {**mine, **theirs}
        names = [name for name in both if mine.get(name) != theirs.get(name)]
        if names:
            told = [f"{name} {mine.get(name)} and {theirs.get(name)}" for name in names]
            where = f" (group {group})" if len(first) > 1 else ""
            return f"different hyper-parameters: {', '.join(told)}{where}"
    return f"{len(first)} and {len(second)} groups of hyper-parameters"


def count_bytes(contributed: Sequence[Contributed]) -> int:
    """How much dense gradients a round has of one contributor; all have about the same."""
    blocks = contributed[0].contents.blocks if contributed else {}
    return sum(gradient.nbytes for gradient in blocks.values())


def apply_block_round(
    bundle: Bundle, contributed: Sequence[Contributed], hyper: Hyper
) -> None:
    """Take one step of each dense block that anybody of a round has a gradient for."""
    if len(contributed) == 1 and contributed[0].weight == 1.0:  # nothing to add up
        slots, blocks = contributed[0].slots, contributed[0].contents.blocks
        gradients = {n: blocks[n] for n in bundle.blocks if n in slots and n in blocks}
    else:
        gradients = _summed(bundle, contributed)
    if gradients:
        bundle.apply(gradients, hyper)


def _summed(bundle: Bundle, contributed: Sequence[Contributed]) -> dict[int, torch.Tensor]:
    having = [(one.contents.blocks, one.slots, one.weight) for one in contributed]
    gradients = {}
    for slot in bundle.blocks:
        found, weights = [], []
        for blocks, slots, weight in having:
            if slot in slots and slot in blocks:
                found.append(blocks[slot])
                weights.append(weight)
        if found:
            gradients[slot] = weighted_sum(found, weights)
    return gradients


def apply_sparse_round(
    shard: ParameterShard, slot: int, contributed: Sequence[Contributed], hyper: Hyper
) -> None:
    """As `apply_block_round`, of a block with sparse gradients."""
    found = [
        (one.contents.sparse[slot], one.weight)
        for one in contributed
        if slot in one.slots and slot in one.contents.sparse
    ]
    if found:
        shard.apply_sparse(slot, sum_sparse(*zip(*found, strict=True)), hyper)


def apply_rows_round(
    shard: ParameterShard, slot: int, contributed: Sequence[Contributed], how: RowStep
) -> None:
    """Take one step of each table in a row slot that a round has rows of."""
    tables = shard.rows[slot]
    are_summed = not any(isinstance(table, ValueTable) for table in tables.values())
    for one in sum_rows(slot, contributed, are_summed=are_summed):
        rows = TableGradients(*one, (slot,), (0, len(one.ids)))
        apply_rows([TableStep(tables[one.table], rows)], how)


def sum_rows(
    slot: int, contributed: Sequence[Contributed], *, are_summed: bool = True
) -> list[RowGradients]:
    """The gradients of a row slot in a round, one per table that occurs.

    Values of a table of the user's own are not gradients: they are combined with its rows
    one contribution after the other, in the order of the round. Of whole rows the first
    replace what is there, and the others are combined with them: the rows are then what the
    round comes to by itself.
    """
    if not are_summed:
        return _in_order(
            rows
            for one in contributed
            if slot in one.slots
            for rows in one.contents.rows_of(slot)
        )
    by_table: dict[str, list[tuple[RowGradients, float]]] = {}
    for one in contributed:
        if slot in one.slots:
            for rows in one.contents.rows_of(slot):
                by_table.setdefault(rows.table, []).append((rows, one.weight))
    return [_sum_table(table, found) for table, found in sorted(by_table.items())]


def _in_order(contributions: Iterable[RowGradients]) -> list[RowGradients]:
    replaced: set[str] = set()
    found = []
    for rows in contributions:
        is_first = rows.replaces and rows.table not in replaced
        found.append(rows._replace(replaces=is_first))
        if rows.replaces:
            replaced.add(rows.table)
    return found


def _sum_table(table: str, found: list[tuple[RowGradients, float]]) -> RowGradients:
    rows, weight = found[0]
    if len(found) == 1 and weight == 1.0:
        return rows
    ids = np.concatenate([rows.ids for rows, _ in found])
    weighted = np.concatenate([rows.gradients * np.float32(w) for rows, w in found])
    unique, inverse = unique_ids(ids)
    return RowGradients(table, unique, sum_duplicates(inverse, weighted, len(unique)))
