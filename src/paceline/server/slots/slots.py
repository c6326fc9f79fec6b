"""The numbers of one server: its shard, with a queue in front of each slot.

::

    under the state lock        line_up   the actions of one decision join their slots
    afterwards, anywhere        run       whoever comes by runs what is next in each slot

So numbers follow in the order of the decisions, one action at a time per slot, slots in
parallel, and no lock is held while they are computed. A copy for a cut, lined up in the
same breath as the marks are copied, is of exactly the pushes that the marks show. In a
hogwild part pushes and reads of a slot run beside each other; all else is alone.

Waits for nothing. Any thread may run; what lines up does so under the `ServerCore`'s lock.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import final

import torch

from paceline.messages.shared import Hyper, PartPlan, Refusal, TrainerMessage
from paceline.pace.policy import pushes_per_update
from paceline.params.codecs import Codec
from paceline.params.dense import OptimizeBlock
from paceline.params.hogwild import is_hogwild
from paceline.params.rows import Array
from paceline.params.shard import ParameterShard, bare
from paceline.params.snapshot import SlotSnapshot
from paceline.server.requests import PartLayout, layout_of
from paceline.server.requests.contents import Bytes, PushContents, TableIds
from paceline.server.slots.block_reads import BlockReads
from paceline.server.slots.hogwild import HogwildBlock, step_rows
from paceline.server.slots.merging import step_sparse, step_tables
from paceline.server.slots.published import LentValues
from paceline.server.slots.queue import (
    MOST_WAITING,
    Action,
    BesideTurn,
    Joint,
    SlotQueue,
    Turn,
    line_up,
    nothing,
)
from paceline.server.slots.rates import hyper_at_rate
from paceline.server.slots.rounds import Contributed
from paceline.server.slots.turns import (
    RowRead,
    apply_block_round,
    apply_compensated,
    apply_rows,
    apply_rows_round,
    apply_sparse_round,
    beside,
    read_made_rows,
    read_rows,
    step_together,
)

Actions = dict[int, Turn]  # {slot: what happens to its numbers}
SlotTensors = dict[str, torch.Tensor]  # {name: tensor}, all that a slot holds


@final
class Slots:
    """The slots of one server on one timeline.

    Attributes:
        layouts: what of each part lies here.
        full: queues at which nothing more may wait; see `refusal_of`.
    """

    def __init__(
        self, server: str, seed: int, on_error: Callable[[Exception], None]
    ) -> None:
        """Be empty; ``on_error`` gets what an action raises, which none should."""
        self.layouts: dict[int, PartLayout] = {}  # {part: layout}
        self.full: set[SlotQueue] = set()
        self._server = server
        self._seed = seed
        self._on_error = on_error
        self._shard = ParameterShard()
        self._most: dict[int, int] = {}  # {part: pushes that may be one update}
        self._queues: dict[int, SlotQueue] = {}  # {slot: queue}
        self._hogwild: dict[int, HogwildBlock | None] = {}  # {slot: its dense block}
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
            self._queues[slot] = SlotQueue(self._on_error, self.full)
        if is_hogwild(plan.spec):
            # A block with sparse gradients notes its changes in order: it keeps its queue.
            dense = (s for s, block in layout.blocks.items() if not block.row_bytes)
            self._hogwild |= {s: HogwildBlock(self._shard.dense(s)) for s in dense}
            self._hogwild |= dict.fromkeys(layout.row_slots)
        self.layouts[plan.spec.part] = layout
        self._most[plan.spec.part] = pushes_per_update(plan.spec.pace)

    def all_slots(self) -> tuple[int, ...]:
        """All slots of this server, ascending."""
        return self._shard.slots()

    def line_up_read(
        self, actions: Mapping[int, Turn], done: Action, message: TrainerMessage
    ) -> Refusal | Action:
        """As `line_up`, for who has asked; or why not, see `refusal_of`."""
        refusal = self.refusal_of(actions, message) if self.full else None
        return refusal or self.line_up(actions, done, message.incarnation)

    def refusal_of(self, slots: Iterable[int], message: TrainerMessage) -> Refusal | None:
        """Why nothing more may wait at one of these slots; None if it may.

        Nothing has been decided: the trainer comes again with the same.
        """
        for slot in slots:
            if self._queues[slot].is_full:
                text = f"slot {slot} of {self._server} has {MOST_WAITING} turns waiting"
                return Refusal(kind="not_ready", text=text, timeline=message.timeline)
        return None

    def num_merged(self) -> int:
        """Pushes that became one update with one before them, over all slots."""
        return sum(queue.num_merged for queue in self._queues.values())

    def dense_of(self, parts: Collection[int]) -> set[int]:
        """The dense slots of these parts here."""
        return {slot for part in parts for slot in self.layouts[part].blocks}

    def load(self, slot: int, tensors: SlotTensors) -> None:
        """Replace all that a slot holds, before anybody else knows this object.

        Raises:
            UsageError: the tensors are not those of this slot's plan.
        """
        self._shard.load(slot, tensors)

    def line_up(
        self,
        actions: Mapping[int, Turn],
        done: Action,
        owner: int = 0,
        *,
        changed: Iterable[int] = (),
        version: int | None = None,
    ) -> Action:
        """Give the actions their places; what is returned runs them and must be called.

        Args:
            actions: of one decision.
            done: runs after the last of them, in whichever thread that is.
            owner: an incarnation: its actions follow each other, even beside others.
            changed: parts whose values change by it: readers of lent memory know so from
                now on until they have.
            version: of those parts, if a push makes one.
        """
        ended = []
        for part in changed:
            lent = self._lent[part].values
            if lent is not None and not lent.blocks.keys().isdisjoint(actions):
                lent.decide()
                ended.append(lent.done)
            if lent is not None and version is not None:
                lent.count(version)
        if not actions:
            return done
        queues = [self._queues[slot] for slot in actions]
        return line_up(queues, actions.values(), [*ended, done], owner)

    def push(
        self,
        part: int,
        contents: PushContents,
        slots: Sequence[int],
        version: int,
        done: Action,
        owner: int,
    ) -> Action:
        """Line up the numbers of a push that is applied at once, see `line_up`."""
        actions = self.applying(part, contents, slots)
        return self.line_up(actions, done, owner, changed=(part,), version=version)

    # ------------------------------------------------------------ actions

    def applying(self, part: int, contents: PushContents, slots: Sequence[int]) -> Actions:
        """Take one optimizer step on each of ``slots`` that the push has numbers for."""
        if self._most[part] > 1:
            return self._applying_jointly(part, contents, slots)
        actions: Actions = {}
        for slot in slots:
            gradient = contents.blocks.get(slot)
            if gradient is not None and slot in contents.then:
                actions[slot] = self._compensating(part, slot, contents)
            elif gradient is not None:
                actions[slot] = self._applying_block(part, slot, gradient, contents.hyper)
            elif slot in contents.sparse:
                group = self._group(part, slot, contents.hyper)
                actions[slot] = functools.partial(
                    self._shard.apply_sparse, slot, contents.sparse[slot], group
                )
        return actions | self._applying_rows(part, contents, slots)

    def _applying_jointly(
        self, part: int, contents: PushContents, slots: Sequence[int]
    ) -> Actions:
        """As `applying`; pushes that wait behind each other take one step together."""
        actions: Actions = {}
        shard, kind, most = self._shard, self.layouts[part].kind, self._most[part]
        how = self.layouts[part].row_step(contents.hyper, contents.rate)
        for slot in slots:
            if slot in contents.blocks:
                block, hyper = self._block(part, slot, contents.hyper)
                step = functools.partial(step_together, block, kind, hyper)
                actions[slot] = Joint(contents.blocks[slot], step, hyper, most)
            elif slot in contents.sparse:
                hyper = self._group(part, slot, contents.hyper)
                step = functools.partial(step_sparse, shard, slot, kind, hyper)
                actions[slot] = Joint(contents.sparse[slot], step, hyper, most)
            elif slot in contents.rows:
                step = functools.partial(step_tables, shard, slot, how)
                actions[slot] = Joint(contents.rows[slot], step, how, most)
        return actions

    def applying_round(
        self,
        part: int,
        contributed: Sequence[Contributed],
        hyper: tuple[Hyper, ...],
        rate: float = 1.0,
    ) -> Actions:
        """Take one optimizer step on each slot that any contributor has numbers for."""
        actions: Actions = {}
        hyper = hyper_at_rate(hyper, rate)
        how = self.layouts[part].row_step(hyper, rate)
        for one in contributed:
            for slot in one.contents.blocks.keys() - actions.keys():
                block, group = self._block(part, slot, hyper)
                actions[slot] = functools.partial(
                    apply_block_round, block, slot, contributed, group
                )
            for slot in one.contents.sparse.keys() - actions.keys():
                group = self._group(part, slot, hyper)
                actions[slot] = functools.partial(
                    apply_sparse_round, self._shard, slot, contributed, group
                )
            for slot in one.contents.rows.keys() - actions.keys():
                actions[slot] = functools.partial(
                    apply_rows_round, self._shard, slot, contributed, how
                )
        return actions

    def uploading(self, values: Mapping[int, Bytes]) -> Actions:
        """Set the values of dense slots, or of a dense table's."""
        upload = self._shard.upload
        return {s: functools.partial(upload, s, v) for s, v in values.items()}

    def lent(self, part: int) -> LentValues:
        """The dense values of a part that trainers of this host may read themselves."""
        return self._lent[part]

    def retire(self) -> None:
        """Another object takes this one's place: nothing here changes any more."""
        for lent in self._lent.values():
            lent.retire()

    def reading_blocks(
        self,
        unknown: Mapping[int, Bytes],
        known: Mapping[int, int],
        codecs: Mapping[int, Codec] | None = None,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> tuple[Actions, BlockReads]:
        """Copy what a reader needs of dense slots; see `BlockReads` for all four."""
        reads = BlockReads(self._shard, unknown, known, codecs, is_awaited)
        actions: Actions = {}
        for slot in reads.slots:
            copy = functools.partial(reads.copy, slot)
            actions[slot] = beside(copy) if slot in self._hogwild else copy
        return actions, reads

    def reading_rows(
        self,
        wanted: Sequence[TableIds],
        places: Sequence[Bytes],
        *,
        create: bool,
        codec: Codec | None = None,
    ) -> Actions:
        """Copy rows into the places: (ids, dim) of each one wanted, or its code."""
        by_slot: dict[int, list[RowRead]] = {}
        for (table, form, ids, spans), place in zip(wanted, places, strict=True):
            copy: Array
            if codec is None:
                copy = place.view(form.dtype).reshape(len(ids), form.dim)
            else:
                copy = place.reshape(len(ids), codec.coded_row_bytes(1, form.dim))
            for slot, start, stop in spans:
                rows = self._shard.table(slot, table)
                read = RowRead(rows, ids[start:stop], copy[start:stop], codec)
                by_slot.setdefault(slot, []).append(read)
        actions: Actions = {}
        for slot, reads in by_slot.items():
            alone = functools.partial(read_rows, reads, create=create)
            beside = functools.partial(read_made_rows, reads, create=create)
            actions[slot] = BesideTurn(beside, alone) if slot in self._hogwild else alone
        return actions

    def pinning(self) -> tuple[Actions, dict[int, SlotSnapshot]]:
        """Hold the moment of all slots in the dict returned: ``{slot: snapshot}``."""
        pinned: dict[int, SlotSnapshot] = {}

        def pin(slot: int) -> None:
            pinned[slot] = self._shard.pin(slot)

        return {slot: functools.partial(pin, slot) for slot in self.all_slots()}, pinned

    def unpinning(self) -> Actions:
        """Let the snapshots of all slots go."""
        return {s: functools.partial(self._shard.unpin, s) for s in self.all_slots()}

    def moving(self, to: "Slots", without_state: Collection[int]) -> Actions:
        """Copy all that each slot holds to other slots of the same numbers.

        Args:
            to: known to nobody else yet.
            without_state: parts whose optimizers there are others: they begin anew.
        """
        return {
            slot: functools.partial(self._move, slot, to, is_bare=is_bare)
            for part, layout in self.layouts.items()
            for is_bare in [part in without_state]
            for slot in (*layout.blocks, *layout.row_slots)
        }

    def _move(self, slot: int, to: "Slots", *, is_bare: bool) -> None:
        held = self._shard.export(slot)
        to.load(slot, bare(held) if is_bare else held)

    def ending(self, part: int) -> Actions:
        """Let the state of a part's optimizer go."""
        blocks = {slot: self._shard.dense(slot) for slot in self.layouts[part].blocks}
        return {slot: functools.partial(b.load, {}) for slot, b in blocks.items()}

    def standing_still(self) -> Actions:
        """Nothing; what is decided later follows when all decided before has ended."""
        return dict.fromkeys(self._hogwild, nothing)

    def _applying_block(
        self, part: int, slot: int, gradient: torch.Tensor, hyper: tuple[Hyper, ...]
    ) -> Turn:
        hogwild = self._hogwild.get(slot)
        block, group = self._block(part, slot, hyper)
        if hogwild is None:
            return functools.partial(block.apply, gradient, group)
        return BesideTurn(
            functools.partial(hogwild.step, gradient, group),
            functools.partial(hogwild.step_alone, gradient, group),
        )

    def _applying_rows(
        self, part: int, contents: PushContents, slots: Sequence[int]
    ) -> Actions:
        actions: Actions = {}
        if not contents.rows:
            return actions
        how = self.layouts[part].row_step(contents.hyper, contents.rate)
        for slot in slots:
            if slot in contents.rows:
                rows = contents.rows[slot]
                tables = [self._shard.table(slot, one.table) for one in rows]
                alone = functools.partial(apply_rows, tables, rows, how)
                beside = functools.partial(step_rows, tables, rows, how)
                actions[slot] = (
                    BesideTurn(beside, alone) if slot in self._hogwild else alone
                )
        return actions

    def _compensating(self, part: int, slot: int, contents: PushContents) -> Turn:
        block, group = self._block(part, slot, contents.hyper)
        factor = self.layouts[part].compensation
        assert factor is not None, "values then come where gradients are compensated"
        numbers = (contents.blocks[slot], contents.then[slot])
        return functools.partial(apply_compensated, block, *numbers, factor, group)

    def _block(
        self, part: int, slot: int, hyper: tuple[Hyper, ...]
    ) -> tuple[OptimizeBlock, Hyper]:
        return self._shard.blocks[slot], self._group(part, slot, hyper)

    def _group(self, part: int, slot: int, hyper: tuple[Hyper, ...]) -> Hyper:
        return hyper[self.layouts[part].blocks[slot].group]
