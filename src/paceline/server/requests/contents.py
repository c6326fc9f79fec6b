"""What a trainer's request holds: its raw buffers read as tensors, checked first.

A request is checked whole against what of its part lies on this server, before it is
decided: a malformed one changes nothing, and what was decided cannot fail. Nothing is
copied: the tensors and arrays are views of the buffers that came.

Pure.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from paceline.errors import UsageError
from paceline.messages.data import Pull, PullRows, Push, PushEarly, Upload
from paceline.messages.locking import RowSlots
from paceline.messages.shared import Hyper
from paceline.messages.values import SetValues
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


class TableGradients(NamedTuple):
    """As `RowGradients`, of several slots: the n-th has those ``ends[n]:ends[n + 1]``."""

    table: str
    ids: Int64s
    gradients: Array
    replaces: bool
    slots: tuple[int, ...]
    ends: Sequence[int]

    def part(self, first: int, stop: int) -> "TableGradients":
        """Those of the slots ``first:stop`` of these."""
        start, end = self.ends[first], self.ends[stop]
        return self._replace(
            ids=self.ids[start:end],
            gradients=self.gradients[start:end],
            slots=self.slots[first:stop],
            ends=[one - start for one in self.ends[first : stop + 1]],
        )

    def of(self, slot: int) -> RowGradients:
        """Those of one slot."""
        at = self.slots.index(slot)
        return RowGradients(*self.part(at, at + 1)[:4])


class PushContents(NamedTuple):
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


class TableIds(NamedTuple):
    """Ids (n,) of one table, grouped by slot: the n-th has ``ids[ends[n]:ends[n + 1]]``."""

    table: str
    form: TableForm
    ids: Int64s
    slots: tuple[int, ...]
    ends: list[int]


class PreparedPush(NamedTuple):
    """The numbers of a push that waits for its round."""

    slots: frozenset[int]
    contents: PushContents


def read_others(
    layout: PartLayout,
    push: Push,
    blocks: dict[int, torch.Tensor],
    buffers: Sequence[Bytes],
) -> PushContents:
    """What a push has beside gradients of ``blocks``, and those; it is checked whole.

    There are as many buffers as the push has behind those of its blocks.

    Raises:
        UsageError: the push does not fit the part, or the buffers not the push.
    """
    _require_distinct("tables", [entry.table for entry in push.rows])
    num_paired = len(buffers) - len(push.then)
    then = _read_then(layout, push, buffers[num_paired:])
    buffers = buffers[:num_paired]
    pairs = zip(buffers[::2], buffers[1::2], strict=True)
    sparse = {
        slot: _read_sparse(layout, push, slot, *next(pairs)) for slot in push.sparse_blocks
    }
    rows: list[TableGradients] = []
    for entry, (id_bytes, gradient_bytes) in zip(push.rows, pairs, strict=True):
        table = _read_ids(layout, entry, id_bytes)
        count, form = len(table.ids), table.form
        expected = count * form.row_bytes
        _require_bytes(f"gradients of {entry.table!r}", gradient_bytes, expected)
        if entry.replaces and not form.is_own:
            raise UsageError(f"rows of the embedding {entry.table!r} are not replaced")
        values = gradient_bytes.view(form.dtype).reshape(count, form.dim)
        what = (entry.table, table.ids, values, entry.replaces)
        rows.append(TableGradients(*what, table.slots, table.ends))
    if push.stepped:
        _count_steps(layout, push, rows)
    num_bytes = sum(gradient.nbytes for gradient in blocks.values())
    num_bytes += sum(gradient.nbytes for gradient in buffers[1::2])
    return PushContents(push.hyper, blocks, sparse, rows, then=then, num_bytes=num_bytes)


def _count_steps(layout: PartLayout, push: Push, rows: list[TableGradients]) -> None:
    """Let every slot hear of a step of a table that counts them, with rows or without."""
    _require_distinct("tables that step", push.stepped)
    for name in push.stepped:
        form = layout.tables.get(name)
        if form is None or not form.counts_steps:
            raise UsageError(
                f"part {layout.part}: expected a table that counts its steps, got {name!r}"
            )
        nothing = np.empty(0, np.int64), np.empty((0, form.dim), np.float32)
        having = {s for entry in push.rows if entry.table == name for s in entry.slots}
        if others := (*sorted(layout.row_slots - having),):
            ends = [0] * (len(others) + 1)
            rows.append(TableGradients(name, *nothing, False, others, ends))


def read_together(
    layout: PartLayout, push: Push, buffers: Sequence[Bytes]
) -> tuple[dict[int, torch.Tensor], int]:
    """Gradients of a push whose blocks share buffers, and their bytes.

    Raises:
        UsageError: they do not fit the part, or it has a codec.
    """
    is_whole = min(push.together) > 0 and sum(push.together) == len(push.blocks)
    if layout.codec is not None or not is_whole:
        raise UsageError(
            f"part {layout.part}: expected {len(push.blocks)} gradients without a codec, "
            f"got {list(push.together)} in a buffer each"
        )
    found: dict[int, torch.Tensor] = {}
    num_bytes = first = 0
    for count, buffer in zip(push.together, buffers, strict=False):
        slots = push.blocks[first : first + count]
        blocks = [_any_block(layout, slot) for slot in slots]
        sizes = [block.num_bytes for block in blocks]
        dtypes = {block.dtype for block in blocks}
        size, rows = sum(sizes), sum([block.row_bytes for block in blocks])
        if len(dtypes) != 1 or rows or size != buffer.nbytes:
            raise UsageError(
                f"part {layout.part}: expected {size} bytes of one dtype for the dense "
                f"slots {list(slots)}, without gradients of rows, got {buffer.nbytes}"
            )
        [dtype] = dtypes
        numbers = [one // dtype.itemsize for one in sizes]
        flat = torch.frombuffer(buffer, dtype=dtype)
        found.update(zip(slots, flat.split_with_sizes(numbers), strict=True))
        num_bytes, first = num_bytes + size, first + count
    return found, num_bytes


def read_early(
    layout: PartLayout, early: PushEarly, buffers: Sequence[Bytes]
) -> dict[int, torch.Tensor]:
    """Gradients that have come ahead of their push: ``{slot: gradient (n,)}``.

    Raises:
        UsageError: they do not fit the part, or come ahead of no push.
    """
    _require_distinct("blocks", early.blocks)
    _require_count(len(buffers), len(early.blocks))
    for slot, buffer in zip(early.blocks, buffers, strict=True):
        block = _block(layout, slot, buffer)
        if block.row_bytes or block.codec is not None:
            raise UsageError(f"dense slot {slot} takes no gradient ahead of its push")
    return {
        slot: torch.from_numpy(buffer).view(layout.blocks[slot].dtype)
        for slot, buffer in zip(early.blocks, buffers, strict=True)
    }


def read_known(layout: PartLayout, pull: Pull) -> Mapping[int, int]:
    """What a reader knows: ``{slot with sparse gradients: update}``, slots ascending.

    Raises:
        UsageError: a slot is none of those that lie here.
    """
    for slot in pull.known:
        _sparse_block(layout, slot)
    return dict(sorted(pull.known.items()))


def read_pull_rows(
    layout: PartLayout, pull: PullRows, buffers: Sequence[Bytes]
) -> list[TableIds]:
    """The ids of a request for rows.

    Raises:
        UsageError: the request does not fit the part, or the buffers not the request.
    """
    _require_distinct("tables", [entry.table for entry in pull.rows])
    _require_count(len(buffers), len(pull.rows))
    return [
        _read_ids(layout, entry, buffer)
        for entry, buffer in zip(pull.rows, buffers, strict=True)
    ]


def read_upload(
    layout: PartLayout, upload: Upload | SetValues, buffers: Sequence[Bytes]
) -> dict[int, Bytes]:
    """Values as a trainer has them: ``{slot: bytes}``, dense ones or of a dense table.

    Raises:
        UsageError: the upload does not fit the part, or the buffers not the upload.
    """
    _require_distinct("slots", upload.slots)
    _require_count(len(buffers), len(upload.slots))
    for slot, buffer in zip(upload.slots, buffers, strict=True):
        if slot in layout.row_slots:
            _require_rows(layout, slot, buffer)
        else:
            _block(layout, slot, buffer)
    return dict(zip(upload.slots, buffers, strict=True))


def _require_rows(layout: PartLayout, slot: int, buffer: Bytes) -> None:
    """The rows of a slot of a dense table begin as they came."""
    for name, form in layout.tables.items():  # one, if it is dense
        if form.bounds is None:
            raise UsageError(f"table {name!r} has no rows until they are made, got some")
        first, behind = form.bounds[slot]
        _require_bytes(f"rows of {name!r}", buffer, (behind - first) * form.row_bytes)


def _block(layout: PartLayout, slot: int, buffer: Bytes) -> BlockLayout:
    """The block of a dense slot, which the buffer fits."""
    block = _any_block(layout, slot)
    _require_bytes(f"dense slot {slot}", buffer, block.num_bytes)
    return block


def misfit(layout: PartLayout, slot: int, buffer: Bytes) -> UsageError:
    """Why a buffer is no gradient of all of a dense slot."""
    try:
        _block(layout, slot, buffer)
    except UsageError as error:
        return error
    return UsageError(f"dense slot {slot} takes gradients of rows, got one of all")


def _any_block(layout: PartLayout, slot: int) -> BlockLayout:
    block = layout.blocks.get(slot)
    if block is None:
        raise UsageError(
            f"part {layout.part} has the dense slots {list(layout.blocks)} on this server, "
            f"got {slot}"
        )
    return block


def _sparse_block(layout: PartLayout, slot: int) -> BlockLayout:
    block = _any_block(layout, slot)
    if not block.row_bytes:
        raise UsageError(f"dense slot {slot} has no rows: its gradients are dense")
    return block


def _read_sparse(
    layout: PartLayout, push: Push, slot: int, row_bytes: Bytes, value_bytes: Bytes
) -> SparseGradient:
    """The gradient of rows of a slot: two buffers."""
    block = _sparse_block(layout, slot)
    reason = why_not_by_rows(layout.kind, push.hyper[block.group])
    if reason is not None:
        raise UsageError(f"dense slot {slot} changes by rows, but {reason}")
    # A mailbox may still change: what is looked at here is what is used.
    row_bytes = own(row_bytes)
    count = row_bytes.nbytes // 8
    _require_bytes(f"rows of dense slot {slot}", row_bytes, 8 * count)
    _require_bytes(f"gradients of dense slot {slot}", value_bytes, block.row_bytes * count)
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
        slot: torch.from_numpy(buffer).view(_block(layout, slot, buffer).dtype)
        for slot, buffer in zip(push.then, buffers, strict=True)
    }


def _read_ids(layout: PartLayout, entry: RowSlots, buffer: Bytes) -> TableIds:
    form = layout.tables.get(entry.table)
    if form is None:
        raise UsageError(
            f"part {layout.part} has the tables {sorted(layout.tables)}, got "
            f"{entry.table!r}"
        )
    what = f"table {entry.table!r}"
    _require_distinct(f"slots of {what}", entry.slots)
    if not layout.row_slots.issuperset(entry.slots):
        strange = [slot for slot in entry.slots if slot not in layout.row_slots]
        raise UsageError(
            f"{what}: part {layout.part} has the row slots {sorted(layout.row_slots)} on "
            f"this server, got {strange}"
        )
    if len(entry.counts) != len(entry.slots) or min(entry.counts, default=0) < 0:
        raise UsageError(
            f"{what}: expected a count >= 0 for each of {len(entry.slots)} slots, got "
            f"{entry.counts}"
        )
    ends = list(itertools.accumulate(entry.counts, initial=0))
    _require_bytes(f"ids of {what}", buffer, 8 * ends[-1])
    if form.bounds is not None:  # what is looked at here is what is used
        buffer = own(buffer)
        for n, slot in enumerate(entry.slots):
            here = buffer.view(np.int64)[ends[n] : ends[n + 1]]
            _require_within(what, form.bounds[slot], slot, here)
    return TableIds(entry.table, form, buffer.view(np.int64), entry.slots, ends)


def _require_within(what: str, bounds: tuple[int, int], slot: int, here: Int64s) -> None:
    first, behind = bounds
    if len(here) and not (here.min() >= first and here.max() < behind):
        raise UsageError(
            f"{what}: expected ids {first}..{behind - 1} in slot {slot}, got "
            f"{here.min()}..{here.max()}"
        )


def _require_count(came: int, expected: int) -> None:
    if came != expected:
        raise UsageError(f"expected {expected} buffers behind the message, got {came}")


def _require_bytes(what: str, buffer: Bytes, expected: int) -> None:
    if buffer.nbytes != expected:
        raise UsageError(f"{what}: expected {expected} bytes, got {buffer.nbytes}")


def _require_distinct(what: str, names: Sequence[object]) -> None:
    if len(set(names)) != len(names):
        raise UsageError(f"expected distinct {what}, got {list(names)}")
