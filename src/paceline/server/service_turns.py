"""What is done in a turn at a slot, where turns run beside each other or together.

``done`` tells readers of lent memory that a block has changed; it follows the numbers.

Waits for nothing. Any thread.
"""

from collections.abc import Sequence

import torch

from paceline.messages import Hyper
from paceline.params.dense import OptimizeBlock
from paceline.params.rows.table import RowTable
from paceline.server.contents import Float32s, Int64s
from paceline.server.merging import merge_blocks
from paceline.server.service_hogwild import HogwildBlock
from paceline.server.service_queue import Action, Beside

RowRead = tuple[RowTable, Int64s, Float32s]  # a table, ids (n,), a place (n, dim)


def beside(read: Action) -> Beside:
    """A turn that never has to be alone."""

    def attempt() -> bool:
        read()
        return True

    return Beside(attempt, read)


def step_beside(
    hogwild: HogwildBlock, gradient: torch.Tensor, hyper: Hyper, done: Action
) -> bool:
    """Take a step beside others; false, and nothing done, if it must be alone."""
    has_stepped = hogwild.step(gradient, hyper)
    if has_stepped:
        done()
    return has_stepped


def step_alone(
    hogwild: HogwildBlock, gradient: torch.Tensor, hyper: Hyper, done: Action
) -> None:
    """Take a step while nothing else is done to the block."""
    hogwild.step_alone(gradient, hyper)
    done()


def step_together(
    block: OptimizeBlock,
    kind: str,
    hyper: Hyper,
    pushes: Sequence[tuple[torch.Tensor, Action]],
) -> None:
    """Take one step of a dense block; it has then changed for each of the pushes."""
    block.apply(merge_blocks(kind, [gradient for gradient, _ in pushes]), hyper)
    for _, done in pushes:
        done()


def read_rows(reads: Sequence[RowRead], *, create: bool) -> None:
    """Copy rows to their places; ``create`` makes those that there are none of."""
    for table, ids, place in reads:
        table.gather_into(ids, create, place)


def read_made_rows(reads: Sequence[RowRead], *, create: bool) -> bool:
    """Read beside others; false if a row has to be made."""
    if create and any(table.lacks(ids) for table, ids, _ in reads):
        return False
    read_rows(reads, create=False)
    return True
