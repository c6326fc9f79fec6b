"""What a trainer's request holds: its raw buffers read as tensors, checked first.

A request is checked whole against what of its part lies on this server, before it is
decided: a malformed one changes nothing, and what was decided cannot fail. Nothing is
copied: the tensors and arrays are views of the buffers that came.

Pure.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from msgspec.structs import replace

from paceline.errors import UsageError
from paceline.messages.data import Pull, PullRows, Push
from paceline.messages.locking import RowSlots
from paceline.messages.shared import Hyper
from paceline.params.sparse import SparseGradient, why_not_by_rows
from paceline.server.requests.layouts import BlockLayout, PartLayout, TableForm
from paceline.transport.service import own

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Array = np.ndarray[Any, np.dtype[Any]]


class RowGradients(NamedTuple):
    """Gradients of one table in one slot: distinct ids (n,), gradients (n, dim).

    Of a table of the user's own, values of its dtype; with ``replaces``, whole rows.
    """

    table: str
    ids: Int64s
    gradients: Array
    replaces: bool = False


class TableGradients(msgspec.Struct, frozen=True):
    """As `RowGradients`, of several slots: the n-th has those ``ends[n]:ends[n + 1]``."""

    table: str
    ids: Int64s
    gradients: Array
    replaces: bool
    slots: tuple[int, ...]
    ends: Sequence[int]

    def part(self, first: int, stop: int) -> "TableGradients":
        """Those of the slots ``first:stop`` of these."""
        if stop - first == len(self.slots):
            return self
        start, end = self.ends[first], self.ends[stop]
        return replace(
            self,
            ids=self.ids[start:end],
            gradients=self.gradients[start:end],
            slots=self.slots[first:stop],
            ends=[one - start for one in self.ends[first : stop + 1]],
        )

    def of(self, slot: int) -> RowGradients:
        """Those of one slot."""
        at = self.slots.index(slot)
        here = self.part(at, at + 1)
        return RowGradients(here.table, here.ids, here.gradients, here.replaces)


class PushContents(msgspec.Struct, frozen=True):
    """The numbers of a push, by slot.

    ``rate`` multiplies the learning rates of rows, ``num_bytes`` is what the gradients have
    that came with the push itself.
    """

    hyper: tuple[Hyper, ...]
    blocks: dict[int, torch.Tensor]  # {slot: gradient (n,)}
    sparse: dict[int, SparseGradient]  # {slot: gradient}
    rows: Sequence[TableGradients] = ()
    rate: float = 1.0
    then: Mapping[int, torch.Tensor] = {}  # {slot: values of its gradient}
    num_bytes: int = 0

    def rows_of(self, slot: int) -> list[RowGradients]:
        """The rows of a slot, of each table that has any there."""
        return [one.of(slot) for one in self.rows if slot in one.slots]

    def row_slots(self) -> list[int]:
        """Slots that have rows, in the order in which they came."""
        return [*dict.fromkeys(slot for one in self.rows for slot in one.slots)]


class TableIds(msgspec.Struct, frozen=True):
    """Ids (n,) of one table, grouped by slot: the n-th has ``ids[ends[n]:ends[n + 1]]``."""

    table: str
    form: TableForm
    ids: Int64s
    slots: tuple[int, ...]
    ends: list[int]

    def part(self, first: int, stop: int) -> "TableIds":
        """Those of the slots ``first:stop`` of these."""
        if stop - first == len(self.slots):
            return self
        start, end = self.ends[first], self.ends[stop]
        return replace(
            self,
            ids=self.ids[start:end],
            slots=self.slots[first:stop],
            ends=[one - start for one in self.ends[first : stop + 1]],
        )


class PreparedPush(msgspec.Struct, frozen=True):
    """The numbers of a push that waits for its round."""

    slots: frozenset[int]
    contents: PushContents


def read_others(
    layout: PartLayout, push: Push, dense: PushContents, buffers: Sequence[Bytes]
) -> PushContents:
    """What a push has beside its ``dense`` gradients, and those; it is checked whole.

    There are as many buffers as the push has behind those of its blocks.

    Raises:
        UsageError: the push does not fit the part, or the buffers not the push.
    """
    require_distinct_tables(push.rows)
    num_paired = len(buffers) - len(push.then)
    then, sparse = dict[int, torch.Tensor](), dict[int, SparseGradient]()
    if push.then or layout.compensation is not None:
        then = _read_then(layout, push, buffers[num_paired:])
    gradients = buffers[1:num_paired:2]
    pairs = zip(buffers[:num_paired:2], gradients, strict=True)
    for slot in push.sparse_blocks:
        sparse[slot] = _read_sparse(layout, push, slot, *next(pairs))
    rows: list[TableGradients] = []
    for entry, (id_bytes, gradient_bytes) in zip(push.rows, pairs, strict=True):
        table = _read_ids(layout, entry, id_bytes)
        count, form = len(table.ids), table.form
        require_bytes("gradients of", entry.table, gradient_bytes, count * form.row_bytes)
        if entry.replaces and not form.is_own:
            raise UsageError(f"rows of the embedding {entry.table!r} are not replaced")
        values = gradient_bytes.view(form.dtype).reshape(count, form.dim)
        what = (entry.table, table.ids, values, entry.replaces)
        rows.append(TableGradients(*what, table.slots, table.ends))
    if push.stepped:
        _count_steps(layout, push, rows)
    num_bytes = dense.num_bytes + sum([gradient.nbytes for gradient in gradients])
    return replace(dense, sparse=sparse, rows=rows, then=then, num_bytes=num_bytes)


def _count_steps(layout: PartLayout, push: Push, rows: list[TableGradients]) -> None:
    """Let every slot hear of a step of a table that counts them, with rows or without."""
    require_distinct("tables that step", push.stepped)
    having = {entry.table: entry.slots for entry in push.rows}
    for name in push.stepped:
        form = layout.tables.get(name)
        if form is None or not form.counts_steps:
            raise UsageError(
                f"part {layout.part}: expected a table that counts its steps, got {name!r}"
            )
        here = having.get(name, ())
        if len(here) < len(layout.row_slots):
            nothing = np.empty(0, np.int64), np.empty((0, form.dim), np.float32)
            slots = (*sorted(layout.row_slots.difference(here)),)
            ends = [0] * (len(slots) + 1)
            rows.append(TableGradients(name, *nothing, False, slots, ends))


def read_known(layout: PartLayout, pull: Pull) -> Mapping[int, int]:
    """What a reader knows: ``{slot with sparse gradients: update}``, slots ascending.

    Raises:
        UsageError: a slot is none of those that lie here.
    """
    for slot in pull.known:
        _sparse_block_of(layout, slot)
    return dict(sorted(pull.known.items()))


def read_pull_rows(
    layout: PartLayout, pull: PullRows, buffers: Sequence[Bytes]
) -> list[TableIds]:
    """The ids of a request for rows.

    Raises:
        UsageError: the request does not fit the part, or the buffers not the request.
    """
    require_distinct_tables(pull.rows)
    require_count(len(buffers), len(pull.rows))
    return [
        _read_ids(layout, entry, buffer)
        for entry, buffer in zip(pull.rows, buffers, strict=True)
    ]


def misfit(layout: PartLayout, slot: int, buffer: Bytes) -> UsageError:
    """Why a buffer is no gradient of all of a dense slot."""
    try:
        fitting_block(layout, slot, buffer)
    except UsageError as error:
        return error
    return UsageError(f"dense slot {slot} takes gradients of rows, got one of all")


def _read_sparse(
    layout: PartLayout, push: Push, slot: int, row_bytes: Bytes, value_bytes: Bytes
) -> SparseGradient:
    """The gradient of rows of a slot: two buffers."""
    block = _sparse_block_of(layout, slot)
    reason = why_not_by_rows(layout.kind, push.hyper[block.group])
    if reason is not None:
        raise UsageError(f"dense slot {slot} changes by rows, but {reason}")
    # A mailbox may still change: what is looked at here is what is used.
    row_bytes = own(row_bytes)
    count = row_bytes.nbytes // 8
    require_bytes("rows of dense slot", slot, row_bytes, 8 * count)
    require_bytes("gradients of dense slot", slot, value_bytes, block.row_bytes * count)
    dim = block.row_bytes // block.dtype.itemsize
    gradient = SparseGradient.of(row_bytes, value_bytes, block.dtype, dim)
    numbers = gradient.rows.numpy()
    num_rows = block.num_bytes // block.row_bytes
    is_ascending = bool((numbers[1:] > numbers[:-1]).all())
    if count and not (is_ascending and numbers[0] >= 0 and numbers[-1] < num_rows):
        raise UsageError(
            f"dense slot {slot}: expected distinct ascending rows of 0..{num_rows - 1}, "
            f"got {count} from {numbers[0]} to {numbers[-1]}"
        )
    return gradient


def _read_then(
    layout: PartLayout, push: Push, buffers: Sequence[Bytes]
) -> dict[int, torch.Tensor]:
    """The values that the gradients were computed on, where the pace wants them."""
    wanted = {*push.blocks, *push.early} if layout.compensation is not None else set()
    if len(push.then) != len(wanted) or set(push.then) != wanted:
        raise UsageError(
            f"part {layout.part}: expected the values that gradients of the dense slots "
            f"{sorted(wanted)} were computed on, got those of {list(push.then)}"
        )
    return {
        slot: torch.from_numpy(buffer).view(fitting_block(layout, slot, buffer).dtype)
        for slot, buffer in zip(push.then, buffers, strict=True)
    }


def _read_ids(layout: PartLayout, entry: RowSlots, buffer: Bytes) -> TableIds:
    form, slots, counts = layout.tables.get(entry.table), entry.slots, entry.counts
    if form is None:
        raise UsageError(
            f"part {layout.part} has the tables {sorted(layout.tables)}, got "
            f"{entry.table!r}"
        )
    named, least = {*slots}, min(counts, default=0)
    is_distinct = len(named) == len(slots) == len(counts)
    if not (is_distinct and named <= layout.row_slots and least >= 0):
        raise _misnamed(layout, entry)
    ends = list(itertools.accumulate(counts, initial=0))
    require_bytes("ids of table", entry.table, buffer, 8 * ends[-1])
    if form.bounds is not None:  # what is looked at here is what is used
        buffer = own(buffer)
        for n, slot in enumerate(slots):
            here = buffer.view(np.int64)[ends[n] : ends[n + 1]]
            _require_within(f"table {entry.table!r}", form.bounds[slot], slot, here)
    return TableIds(entry.table, form, buffer.view(np.int64), slots, ends)


def _misnamed(layout: PartLayout, entry: RowSlots) -> UsageError:
    """Why slots and counts do not fit a table."""
    what = f"table {entry.table!r}"
    if len({*entry.slots}) != len(entry.slots):
        return UsageError(f"expected distinct slots of {what}, got {list(entry.slots)}")
    if strange := [slot for slot in entry.slots if slot not in layout.row_slots]:
        return UsageError(
            f"{what}: part {layout.part} has the row slots {sorted(layout.row_slots)} on "
            f"this server, got {strange}"
        )
    return UsageError(
        f"{what}: expected a count >= 0 for each of {len(entry.slots)} slots, got "
        f"{entry.counts}"
    )


def fitting_block(layout: PartLayout, slot: int, buffer: Bytes) -> BlockLayout:
    """The block of a dense slot, which the buffer fits."""
    block = block_of(layout, slot)
    require_bytes("dense slot", slot, buffer, block.num_bytes)
    return block


def block_of(layout: PartLayout, slot: int) -> BlockLayout:
    """The block of a dense slot."""
    block = layout.blocks.get(slot)
    if block is None:
        raise UsageError(
            f"part {layout.part} has the dense slots {list(layout.blocks)} on this server, "
            f"got {slot}"
        )
    return block


def _sparse_block_of(layout: PartLayout, slot: int) -> BlockLayout:
    """The block of a dense slot that takes gradients of rows."""
    block = block_of(layout, slot)
    if not block.row_bytes:
        raise UsageError(f"dense slot {slot} has no rows: its gradients are dense")
    return block


def _require_within(what: str, bounds: tuple[int, int], slot: int, here: Int64s) -> None:
    """Ids lie in their slot: from the first to the one behind it."""
    first, behind = bounds
    if len(here) and not (here.min() >= first and here.max() < behind):
        raise UsageError(
            f"{what}: expected ids {first}..{behind - 1} in slot {slot}, got "
            f"{here.min()}..{here.max()}"
        )


def require_count(came: int, expected: int) -> None:
    """So many buffers came as are named."""
    if came != expected:
        raise UsageError(f"expected {expected} buffers behind the message, got {came}")


def require_bytes(what: str, name: object, buffer: Bytes, expected: int) -> None:
    """A buffer has so many bytes."""
    if buffer.nbytes != expected:
        raise UsageError(f"{what} {name!r}: expected {expected} bytes, got {buffer.nbytes}")


def require_distinct(what: str, names: Sequence[object]) -> None:
    """None is named twice."""
    if len(set(names)) != len(names):
        raise UsageError(f"expected distinct {what}, got {list(names)}")


def require_distinct_tables(entries: Sequence[RowSlots]) -> None:
    """No table is named twice."""
    if len(entries) > 1:
        require_distinct("tables", [entry.table for entry in entries])
