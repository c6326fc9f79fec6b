"""A dense block that several pushes change at once, and rows likewise.

::

    values, exp_avg, ...   one memory   <-- hand 1   step 8
    steps: 9                            <-- hand 2   step 9     steps are counted exactly

A *hand* is an optimizer of torch on the very same numbers, so that a step is torch's own
and, when nothing runs beside it, equal to the block's to the bit. The first step of a
block runs alone, since it makes the state; so does one whose hyper-parameters need state
that there is none of. As many hands are made as there were steps at once: at most one a
thread.

Waits: for a lock around the counting of a step. Any thread.
"""

import threading
from collections.abc import Sequence
from typing import Final, final

import torch

from paceline.messages.shared import Hyper
from paceline.params.dense import OptimizeBlock
from paceline.params.rows import RowStep, RowTable
from paceline.params.shard import Table
from paceline.server.requests.contents import RowGradients

# Hyper-parameters that decide which state a block has.
_MAKE_STATE: Final = ("momentum", "centered", "amsgrad")

_COUNTING: Final = threading.Lock()  # guards the counts of steps of all tables


@final
class HogwildBlock:
    """One dense block, to be changed by turns beside each other."""

    def __init__(self, block: OptimizeBlock) -> None:
        """Nothing has stepped yet."""
        self._block = block
        self._lock = threading.Lock()  # guards `_hands` and the block's count of steps
        self._hands: list[OptimizeBlock] = []  # those that nobody uses
        self._made_for: tuple[bool, ...] | None = None  # changed by turns alone

    def step(self, gradient: torch.Tensor, hyper: Hyper) -> bool:
        """Take a step beside others; false, and nothing done, if it must be alone."""
        if self._made_for != _state_for(hyper):
            return False
        with self._lock:
            hand = self._hands.pop() if self._hands else self._block.hand()
            self._block.lend_step(hand)
        try:
            hand.apply(gradient, hyper)
        finally:
            with self._lock:
                self._hands.append(hand)
        return True

    def step_alone(self, gradient: torch.Tensor, hyper: Hyper) -> None:
        """Take a step while nothing else is done to the block."""
        self._hands.clear()  # they may lack state that is made now
        self._block.apply(gradient, hyper)
        self._made_for = _state_for(hyper)


def step_rows(tables: Sequence[Table], rows: Sequence[RowGradients], how: RowStep) -> bool:
    """Step on rows beside others; false, and nothing done, if a row must be made first."""
    learnt = [table for table in tables if isinstance(table, RowTable)]
    found = [table.made_rows(one.ids) for table, one in zip(learnt, rows, strict=True)]
    made = [places for places in found if places is not None]
    if len(made) < len(found):
        return False
    with _COUNTING:
        numbers = [table.count_step() for table in learnt]
    for table, places, one, number in zip(learnt, made, rows, numbers, strict=True):
        table.step_made(places, one.gradients, number, *how.of(one.table))
    return True


def _state_for(hyper: Hyper) -> tuple[bool, ...]:
    return tuple(bool(hyper.get(name)) for name in _MAKE_STATE)
