"""What may happen to the numbers of slots beside a push: rounds, reads, cuts.

Everything here makes turns, one for each slot or for all that share a queue, and
`Slots.line_up` gives them their places.
A guard may multiply learning rates; a rate of 1 changes nothing, not one bit. Rows have no
groups: their optimizers' own rates are multiplied where they step.

Waits: for a lock around the counting of steps. Called under that of the `ServerCore`; turns
run in any thread.
"""

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar, final

import msgspec
import numpy as np
from msgspec.structs import replace

from paceline.messages.shared import Hyper
from paceline.params.codecs import Codec
from paceline.params.rows import Array, RowStep, RowTable
from paceline.params.shard import ParameterShard, SlotSnapshot, Table, bare
from paceline.server.requests import PartLayout
from paceline.server.requests.contents import (
    Bytes,
    PushContents,
    TableGradients,
    TableIds,
)
from paceline.server.slots.merging import step_block, step_sparse, step_tables
from paceline.server.slots.rounds import (
    Contributed,
    apply_block_round,
    apply_rows_round,
    apply_sparse_round,
)
from paceline.server.slots.turns import (
    BesideTurn,
    Joint,
    TableStep,
    Turn,
    apply_compensated,
    apply_rows,
    nothing,
)

_COUNTING: Final = threading.Lock()  # guards the counts of steps of all tables
_MOVING: Final = threading.Lock()  # slots of several queues may come to lie in one store

T = TypeVar("T")

# {slot: what happens to its numbers, or to those of all with rows that it leads}
Actions = dict[int, Turn]
StepRows = Callable[[Sequence[TableStep], RowStep], T]


class RowRead(msgspec.Struct, frozen=True):
    """Rows of a table, wanted at a place; of slots that lie together."""

    table: Table  # in the first of the slots
    wanted: TableIds
    place: Array  # (n, dim) of the table's dtype, or bytes (n, those of a coded row)
    codec: Codec | None = None  # how they travel; None: as they are


@final
class SlotActions:
    """What may happen to the slots of one server, as they are just now."""

    def __init__(
        self,
        shard: ParameterShard,
        layouts: Mapping[int, PartLayout],
        hogwild: set[int],
        leads: Mapping[int, int],
    ) -> None:
        """Know the numbers.

        ``hogwild``: row slots whose turns may run beside others. ``leads``: {row slot:
        the one that stands for all that share its queue}.
        """
        self._shard, self._layouts, self._hogwild = shard, layouts, hogwild
        self._leads = leads

    def applying_jointly(
        self, part: int, contents: PushContents, slots: Sequence[int], most: int
    ) -> Actions:
        """As `Slots.applying`; pushes that wait behind each other take a step together."""
        actions: Actions = {}
        shard, kind = self._shard, self._layouts[part].kind
        how = self._layouts[part].row_step(contents.hyper, contents.rate)
        for slot in slots:
            if slot in contents.blocks:
                hyper = self._group(part, slot, contents.hyper)
                step = functools.partial(step_block, shard.bundles[slot], kind, hyper)
                actions[slot] = Joint(contents.blocks[slot], step, hyper, most)
            elif slot in contents.sparse:
                hyper = self._group(part, slot, contents.hyper)
                step = functools.partial(step_sparse, shard, slot, kind, hyper)
                actions[slot] = Joint(contents.sparse[slot], step, hyper, most)
            elif rows := contents.rows_of(slot):
                step = functools.partial(step_tables, shard, slot, how)
                actions[slot] = Joint(rows, step, how, most)
        return actions

    def stepping(self, layout: PartLayout, contents: PushContents, slot: int) -> Turn:
        """Take a step of a dense slot on some of its rows, or on a gradient corrected."""
        group = contents.hyper[layout.blocks[slot].group]
        if slot in contents.sparse:
            sparse = contents.sparse[slot]
            return functools.partial(self._shard.apply_sparse, slot, sparse, group)
        assert layout.compensation is not None, "it is why values have come"
        bundle, gradient = self._shard.bundles[slot], contents.blocks[slot]
        numbers = (gradient, contents.then[slot], layout.compensation)
        return functools.partial(apply_compensated, bundle, slot, *numbers, group)

    def applying_rows(
        self, layout: PartLayout, contents: PushContents, taken: frozenset[int]
    ) -> Actions:
        """Take one step of each table in those of the slots that the push has rows of."""
        how = layout.row_step(contents.hyper, contents.rate)
        actions = self._stepping_rows(apply_rows, taken, contents.rows, how)
        if not self._hogwild.isdisjoint(actions):
            beside = self._stepping_rows(step_rows, taken, contents.rows, how)
            return {
                slot: BesideTurn(beside[slot], alone) for slot, alone in actions.items()
            }
        return {**actions}

    def applying_round(
        self,
        part: int,
        contributed: Sequence[Contributed],
        hyper: tuple[Hyper, ...],
        rate: float,
    ) -> Actions:
        """Take one optimizer step on each slot that any contributor has numbers for."""
        actions, has_rows, shard = Actions(), False, self._shard
        if rate != 1.0:
            hyper = _hyper_at_rate(hyper, rate)
        for one in contributed:
            contents = one.contents
            has_rows = has_rows or bool(contents.rows)
            for slot in contents.blocks:
                bundle = shard.bundles[slot]
                if bundle.lead not in actions:
                    actions[bundle.lead] = functools.partial(
                        apply_block_round, bundle, contributed, hyper[bundle.group]
                    )
            for slot in contents.sparse:
                if slot not in actions:
                    group = self._group(part, slot, hyper)
                    actions[slot] = functools.partial(
                        apply_sparse_round, shard, slot, contributed, group
                    )
        if has_rows:
            how = self._layouts[part].row_step(hyper, rate)
            first = contributed[0]
            is_one = len(contributed) == 1 and first.weight == 1.0  # nothing to add up
            if is_one:
                rows, taken = first.contents.rows, first.slots
                return {**actions, **self._stepping_rows(apply_rows, taken, rows, how)}
            touched = [slot for one in contributed for slot in one.contents.row_slots()]
            for slot in dict.fromkeys(touched):
                actions[slot] = functools.partial(
                    apply_rows_round, shard, slot, contributed, how
                )
        return actions

    def uploading(self, values: Mapping[int, Bytes]) -> Actions:
        """Set the values of dense slots, or of a dense table's."""
        upload = self._shard.upload
        return {s: functools.partial(upload, s, v) for s, v in values.items()}

    def reading_rows(
        self,
        wanted: Sequence[TableIds],
        places: Sequence[Bytes],
        *,
        create: bool,
        codec: Codec | None = None,
    ) -> Actions:
        """Copy rows into the places: (ids, dim) of each one wanted, or its code."""
        by_lead: dict[int, list[RowRead]] = {}
        for one, place in zip(wanted, places, strict=True):
            copy: Array
            count, form = len(one.ids), one.form
            if codec is None:
                copy = place.view(form.dtype).reshape(count, form.dim)
            else:
                copy = place.reshape(count, codec.coded_row_bytes(1, form.dim))
            for lead, table, first, behind in self._together(one.table, one.slots):
                here = copy[one.ends[first] : one.ends[behind]]
                read = RowRead(table, one.part(first, behind), here, codec)
                by_lead.setdefault(lead, []).append(read)
        actions: Actions = {}
        for slot, reads in by_lead.items():
            alone = functools.partial(read_rows, reads, create=create)
            actions[slot] = alone
            if slot in self._hogwild:
                beside = functools.partial(read_made_rows, reads, create=create)
                actions[slot] = BesideTurn(beside, alone)
        return actions

    def pinning(self) -> tuple[Actions, dict[int, SlotSnapshot]]:
        """Hold the moment of all slots in the dict returned: ``{slot: snapshot}``."""
        pinned: dict[int, SlotSnapshot] = {}

        def pin(slot: int) -> None:
            pinned[slot] = self._shard.pin(slot)

        return {slot: functools.partial(pin, slot) for slot in self._shard.slots()}, pinned

    def unpinning(self) -> Actions:
        """Let the snapshots of all slots go."""
        return {s: functools.partial(self._shard.unpin, s) for s in self._shard.slots()}

    def moving(self, to: "SlotActions", without_state: Collection[int]) -> Actions:
        """Copy all that each slot holds to other slots of the same numbers, not known yet.

        The optimizers of parts ``without_state`` are others there: they begin anew.
        """
        return {
            slot: functools.partial(self._move, slot, to, is_bare=is_bare)
            for part, layout in self._layouts.items()
            for is_bare in [part in without_state]
            for slot in (*layout.blocks, *layout.row_slots)
        }

    def ending(self, part: int) -> Actions:
        """Let the state of a part's optimizer go."""
        drop, here = self._shard.drop_state, self._layouts[part].blocks
        return {slot: functools.partial(drop, slot) for slot in here}

    def standing_still(self) -> Actions:
        """Nothing; what is decided later follows when all decided before has ended."""
        return dict.fromkeys(self._hogwild, nothing)

    def _move(self, slot: int, to: "SlotActions", *, is_bare: bool) -> None:
        held = self._shard.export(slot)
        with _MOVING:
            to._shard.load(slot, bare(held) if is_bare else held)

    def _stepping_rows(
        self,
        step: StepRows[T],
        taken: frozenset[int],
        rows: Iterable[TableGradients],
        how: RowStep,
    ) -> dict[int, Callable[[], T]]:
        """Steps on the rows of the slots that take them, by who leads them."""
        found: dict[int, list[TableStep]] = {}
        for one in rows:
            pieces = [one]
            if not taken.issuperset(one.slots):
                slots = enumerate(one.slots)
                pieces = [one.part(n, n + 1) for n, slot in slots if slot in taken]
            for piece in pieces:
                for lead, table, first, stop in self._together(one.table, piece.slots):
                    stepped = TableStep(table, piece.part(first, stop))
                    found.setdefault(lead, []).append(stepped)
        return {lead: functools.partial(step, steps, how) for lead, steps in found.items()}

    def _together(
        self, name: str, slots: Sequence[int]
    ) -> Iterator[tuple[int, Table, int, int]]:
        """Of slots of a table those that are found at once: lead, table, first, behind."""
        leads, rows, count, stop = self._leads, self._shard.rows, len(slots), 0
        while stop < count:
            first, lead, table = stop, leads[slots[stop]], rows[slots[stop]][name]
            stop += 1
            if type(table) is RowTable:
                while stop < count and leads[slots[stop]] == lead:
                    stop += 1
            yield lead, table, first, stop

    def _group(self, part: int, slot: int, hyper: tuple[Hyper, ...]) -> Hyper:
        return hyper[self._layouts[part].blocks[slot].group]


def at_rate(contents: PushContents, rate: float) -> PushContents:
    """A push that takes its step with so much of its learning rates."""
    return replace(contents, hyper=_hyper_at_rate(contents.hyper, rate), rate=rate)


def _hyper_at_rate(hyper: tuple[Hyper, ...], rate: float) -> tuple[Hyper, ...]:
    found = []
    for group in hyper:
        lr = group.get("lr")
        found.append({**group, "lr": lr * rate} if isinstance(lr, int | float) else group)
    return tuple(found)


def step_rows(steps: Sequence[TableStep], how: RowStep) -> bool:
    """Step on rows beside others; false, and nothing done, if a row must be made first."""
    learnt = [(one.table, one.rows) for one in steps if type(one.table) is RowTable]
    made = [table.made_rows(rows.ids) for table, rows in learnt]
    if any(places is None for places in made):
        return False
    with _COUNTING:
        numbers = [table.count_step() for table, _ in learnt]
    for (table, rows), places, number in zip(learnt, made, numbers, strict=True):
        assert places is not None
        table.step_made(places, rows.gradients, number, *how.of(rows.table))
    return True


def read_rows(reads: Sequence[RowRead], *, create: bool) -> None:
    """Copy rows to their places; ``create`` makes those that there are none of."""
    for one in reads:
        table, wanted, values = one.table, one.wanted, one.place
        if one.codec is not None:
            values = np.empty((len(wanted.ids), table.dim), np.float32)
        if type(table) is RowTable:
            table.store.gather_into(wanted.slots, wanted.ends, wanted.ids, create, values)
        else:
            table.gather_into(wanted.ids, create, values)
        if one.codec is not None:
            one.codec.encode_rows(values, one.place.reshape(-1))


def read_made_rows(reads: Sequence[RowRead], *, create: bool) -> bool:
    """Read beside others; false if a row has to be made."""
    if create and any(one.table.lacks(one.wanted.ids) for one in reads):
        return False
    read_rows(reads, create=False)
    return True
