"""The numbers of one server: its shard, with a queue in front of each slot.

::

    under the state lock        line_up   the actions of one decision join their slots
    afterwards, anywhere        run       whoever comes by runs what is next in each slot

So numbers follow in the order of the decisions, one action at a time per slot, slots in
parallel, and no lock is held while they are computed. A copy for a cut, lined up in the
same breath as the marks are copied, is of exactly the pushes that the marks show.

Waits for nothing; running actions computes. Any thread may run; lining up and creating
are done under the lock of `paceline.server.service_standing.Standing`.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import final

import numpy as np
import torch

from paceline.messages import Hyper, PartPlan
from paceline.params.dense import OptimizeBlock
from paceline.params.rows.table import RowTable
from paceline.params.shard import ParameterShard
from paceline.params.snapshot import SlotSnapshot
from paceline.server.block_reads import BlockReads
from paceline.server.contents import (
    Bytes,
    PartLayout,
    PushContents,
    RowGradients,
    TableIds,
    layout_of,
)
from paceline.server.rounds import Contributed, sum_block, sum_rows, sum_sparse_block
from paceline.server.service_lending import LentValues
from paceline.transport.serial import Action, SerialQueue

Actions = dict[int, Action]  # {slot: what happens to its numbers}
SlotTensors = dict[str, torch.Tensor]  # {name: tensor}, all that a slot holds


@final
class _SlotQueue:
    """Actions of one slot: placed in the order of decisions, run by whoever comes by."""

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._serial = SerialQueue(on_error)
        self._placed: deque[Action] = deque()

    def place(self, action: Action) -> None:
        """Take the next place; `run` must follow once."""
        self._placed.append(action)

    def run(self) -> None:
        """Run all that is placed, others' actions too, unless somebody is at it."""
        self._serial.submit(self._run_placed)

    def _run_placed(self) -> None:
        while self._placed:
            self._placed.popleft()()


@final
class _Countdown:
    """Runs ``done`` after the last of ``count`` actions."""

    def __init__(self, count: int, done: Action) -> None:
        self._lock = threading.Lock()  # guards `_left`
        self._left = count
        self._done = done

    def after(self, action: Action) -> None:
        """Run an action, and what follows if it was the last."""
        action()
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._done()


@final
class Slots:
    """The slots of one server on one timeline.

    Attributes:
        layouts: what of each part lies here.
    """

    def __init__(
        self, server: str, seed: int, on_error: Callable[[Exception], None]
    ) -> None:
        """Be empty; ``on_error`` gets what an action raises, which none should."""
        self.layouts: dict[int, PartLayout] = {}  # {part: layout}
        self._server = server
        self._seed = seed
        self._on_error = on_error
        self._shard = ParameterShard()
        self._queues: dict[int, _SlotQueue] = {}  # {slot: queue}
        self._lent: dict[int, LentValues] = {}  # {part: values that trainers may read}

    def create(self, plan: PartPlan) -> None:
        """Make the slots of a part that lie here.

        Raises:
            UsageError: no server knows its optimizer or dtype; nothing has been changed.
        """
        layout = layout_of(plan, self._server)
        lent = LentValues(layout)
        self._shard.create(plan, self._server, self._seed, lent.block)
        self._lent[layout.part] = lent
        for slot in (*layout.blocks, *layout.row_slots):
            self._queues[slot] = _SlotQueue(self._on_error)
        self.layouts[plan.spec.part] = layout

    def all_slots(self) -> tuple[int, ...]:
        """All slots of this server, ascending."""
        return self._shard.slots()

    def load(self, slot: int, tensors: SlotTensors) -> None:
        """Replace all that a slot holds, before anybody else knows this object.

        Raises:
            UsageError: the tensors are not those of this slot's plan.
        """
        self._shard.load(slot, tensors)

    def line_up(self, actions: Actions, done: Action) -> Action:
        """Give the actions their places; what is returned runs them and must be called.

        ``done`` runs after the last of them, in whichever thread that is.
        """
        if not actions:
            return done
        countdown = _Countdown(len(actions), done)
        queues = [self._queues[slot] for slot in actions]
        for queue, action in zip(queues, actions.values(), strict=True):
            queue.place(functools.partial(countdown.after, action))
        return functools.partial(_run, queues)

    # ------------------------------------------------------------ actions

    def applying(self, part: int, contents: PushContents, slots: Sequence[int]) -> Actions:
        """Take one optimizer step on each of ``slots`` that the push has numbers for."""
        actions: Actions = {}
        for slot in slots:
            gradient = contents.blocks.get(slot)
            if gradient is not None:
                block, hyper = self._block(part, slot, contents.hyper)
                change = functools.partial(block.apply, gradient, hyper)
                actions[slot] = self._lent[part].changing(slot, change)
            elif slot in contents.sparse:
                group = self._group(part, slot, contents.hyper)
                actions[slot] = functools.partial(
                    self._shard.apply_sparse, slot, contents.sparse[slot], group
                )
            elif slot in contents.rows:
                rows = contents.rows[slot]
                actions[slot] = functools.partial(
                    _apply_rows, self._tables(slot, rows), rows
                )
        return actions

    def applying_round(
        self, part: int, contributed: Sequence[Contributed], hyper: tuple[Hyper, ...]
    ) -> Actions:
        """Take one optimizer step on each slot that any contributor has numbers for."""
        actions: Actions = {}
        for one in contributed:
            for slot in one.contents.blocks.keys() - actions.keys():
                block, group = self._block(part, slot, hyper)
                change = functools.partial(
                    _apply_block_round, block, slot, contributed, group
                )
                actions[slot] = self._lent[part].changing(slot, change)
            for slot in one.contents.sparse.keys() - actions.keys():
                group = self._group(part, slot, hyper)
                actions[slot] = functools.partial(
                    self._apply_sparse_round, slot, contributed, group
                )
            for slot in one.contents.rows.keys() - actions.keys():
                actions[slot] = functools.partial(self._apply_rows_round, slot, contributed)
        return actions

    def uploading(self, part: int, values: Mapping[int, Bytes]) -> Actions:
        """Set the values of dense slots."""
        lent = self._lent[part]
        return {
            slot: lent.changing(slot, functools.partial(self._shard.upload, slot, buffer))
            for slot, buffer in values.items()
        }

    def lent(self, part: int) -> LentValues:
        """The dense values of a part that trainers of this host may read themselves."""
        return self._lent[part]

    def retire(self) -> None:
        """Another object takes this one's place: nothing here changes any more."""
        for lent in self._lent.values():
            lent.retire()

    def reading_blocks(
        self, unknown: Mapping[int, Bytes], known: Mapping[int, int]
    ) -> tuple[Actions, BlockReads]:
        """Copy what a reader needs of dense slots; see `BlockReads` for both."""
        reads = BlockReads(self._shard, unknown, known)
        return {slot: functools.partial(reads.copy, slot) for slot in reads.slots}, reads

    def reading_rows(
        self, wanted: Sequence[TableIds], places: Sequence[Bytes], *, create: bool
    ) -> Actions:
        """Copy rows into the places, float32 (ids, dim) for each of ``wanted``."""
        by_slot: dict[int, list[Action]] = {}
        for (table, dim, ids, spans), place in zip(wanted, places, strict=True):
            copy = place.view(np.float32).reshape(len(ids), dim)
            for slot, start, stop in spans:
                rows = self._shard.table(slot, table)
                by_slot.setdefault(slot, []).append(
                    functools.partial(
                        rows.gather_into, ids[start:stop], create, copy[start:stop]
                    )
                )
        return {slot: functools.partial(_run_all, reads) for slot, reads in by_slot.items()}

    def pinning(self) -> tuple[Actions, dict[int, SlotSnapshot]]:
        """Hold the moment of all slots in the dict returned: ``{slot: snapshot}``."""
        pinned: dict[int, SlotSnapshot] = {}

        def pin(slot: int) -> None:
            pinned[slot] = self._shard.pin(slot)

        return {slot: functools.partial(pin, slot) for slot in self.all_slots()}, pinned

    def unpinning(self) -> Actions:
        """Let the snapshots of all slots go."""
        return {s: functools.partial(self._shard.unpin, s) for s in self.all_slots()}

    def _block(
        self, part: int, slot: int, hyper: tuple[Hyper, ...]
    ) -> tuple[OptimizeBlock, Hyper]:
        return self._shard.dense(slot), self._group(part, slot, hyper)

    def _group(self, part: int, slot: int, hyper: tuple[Hyper, ...]) -> Hyper:
        return hyper[self.layouts[part].blocks[slot].group]

    def _tables(self, slot: int, rows: Sequence[RowGradients]) -> list[RowTable]:
        return [self._shard.table(slot, one.table) for one in rows]

    def _apply_sparse_round(
        self, slot: int, contributed: Sequence[Contributed], hyper: Hyper
    ) -> None:
        gradient = sum_sparse_block(slot, contributed)
        if gradient is not None:
            self._shard.apply_sparse(slot, gradient, hyper)

    def _apply_rows_round(self, slot: int, contributed: Sequence[Contributed]) -> None:
        rows = sum_rows(slot, contributed)
        _apply_rows(self._tables(slot, rows), rows)


def _run(queues: Sequence[_SlotQueue]) -> None:
    for queue in queues:
        queue.run()


def _run_all(actions: Sequence[Action]) -> None:
    for action in actions:
        action()


def _apply_block_round(
    block: OptimizeBlock, slot: int, contributed: Sequence[Contributed], hyper: Hyper
) -> None:
    gradient = sum_block(slot, contributed)
    if gradient is not None:
        block.apply(gradient, hyper)


def _apply_rows(tables: Sequence[RowTable], rows: Sequence[RowGradients]) -> None:
    for table, (_, ids, gradients) in zip(tables, rows, strict=True):
        table.apply(ids, gradients)
