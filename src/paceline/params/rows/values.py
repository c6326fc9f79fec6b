"""One table of the user's own in one slot: rows of any dtype that values combine with.

::

    dense table    rows start..stop of it    row of an id: id - start
    keyed table    ids that hash here        id --IdMap--> row, made when it is written

It stands where a `RowTable` stands, with the same calls; it has no optimizer, and so no
state but the values.

Pure: no lock of its own; one call at a time per table and slot, slots in parallel.
"""

from collections.abc import Mapping
from typing import final

import numpy as np

from paceline.config import Combine, Constant, Highest, Lowest, Zeros
from paceline.errors import RuleFailed, UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows.combining import (
    Array,
    combine_rows,
    require_rule,
    rule_failed,
    span_of,
)
from paceline.params.rows.compiled import Int64s
from paceline.params.rows.id_map import IdMap
from paceline.params.rows.initial import begin_of, fill_initial, init_key
from paceline.params.rows.snapshot import RowSnapshot
from paceline.params.rows.table import SlotTable


@final
class ValueTable(SlotTable):
    """The rows of one table that values combine with.

    Ids are int64 (n,); values (n, dim) of the table's dtype; all C-contiguous, and what is
    only read may be read-only or unaligned. The job's ``seed`` decides a new row, with the
    table's name and the id. It is ``block`` of the table's ``num_blocks`` slots, from 0.

    Raises:
        UsageError: nobody has registered its rule here.
    """

    def __init__(self, spec: TableSpec, seed: int, block: int, num_blocks: int) -> None:
        assert isinstance(spec.optimizer, Combine)
        require_rule(spec.optimizer.rule)
        super().__init__(spec, np.dtype(spec.optimizer.dtype))
        self._combine = spec.optimizer
        self._key = init_key(seed, spec.name)
        self._index: IdMap | None = None
        self._start = self._count = 0
        self._values: Array = np.empty((0, spec.dim), self.dtype)
        if self._combine.num_rows is None:
            self._index = IdMap()
        else:
            self._start, stop = self._combine.bounds(block, num_blocks)
            self._count = stop - self._start
            self._values = self._initial(range(self._start, stop))

    def __len__(self) -> int:
        """How many rows there are."""
        return self._count

    def gather_into(self, ids: Int64s, create: bool, out: Array) -> None:
        """See `SlotTable.gather_into`; rows are made when they are written, not here."""
        del create
        self._require_shape("out", out, len(ids), self._spec.dim)
        if self._index is None:
            span = span_of(ids - self._start)
            if span is not None:
                out[:] = self._values[span]
                return
            np.take(self._values, ids - self._start, axis=0, out=out, mode="clip")
            return
        rows = self._index.find(ids)
        seen = rows >= 0
        if seen.all():
            np.take(self._values, rows, axis=0, out=out, mode="clip")
            return
        out[seen] = self._values[rows[seen]]
        out[~seen] = self._initial(ids[~seen])

    def apply(self, ids: Int64s, values: Array, *, replaces: bool = False) -> None:
        """Combine values with these rows; unseen ones are made first.

        ``ids`` must be distinct. With ``replaces`` the rows are these values from now on,
        whatever the rule.

        Raises:
            UsageError: the values have another shape; nothing has been changed.
            RuleFailed: the table's rule did, and for which id; no row has another value.
        """
        self._require_shape("values", values, len(ids), self._spec.dim)
        rows = self._make_rows(ids)
        if self._snapshot is not None:
            self._snapshot.keep(rows)
        rule = "replace" if replaces else self._combine.rule
        try:
            combine_rows(rule, self._values, rows, values)
        except RuleFailed as error:
            raise rule_failed(self._spec.name, ids, error) from error

    def upload(self, values: Array) -> None:
        """Set all rows of a dense table's block.

        Raises:
            UsageError: it is a keyed table, or the values have another shape.
        """
        if self._index is not None:
            raise UsageError(f"table {self._spec.name!r} is keyed: it begins without rows")
        self._require_shape("values", values, *self._values.shape)
        if self._snapshot is not None:
            self._snapshot.keep(np.arange(self._count))
        self._values[:] = values

    def lacks(self, ids: Int64s) -> bool:
        """Whether a row would have to be made to read these ids: none ever is."""
        del ids
        return False

    def export(self) -> dict[str, Array]:
        """A copy of all rows: ``ids`` int64 (n,), ``values`` (n, dim)."""
        return {"ids": self._ids().copy(), "values": self._values[: self._count].copy()}

    def _moment(self) -> RowSnapshot:
        return RowSnapshot(self._ids(), {"values": self._values[: self._count]})

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace all rows by what `export` returned; the table goes on identically.

        Raises:
            UsageError: an array is missing, too many, of another shape or dtype, or ids
                are not those of this slot; nothing has been changed.
        """
        if arrays.keys() != {"ids", "values"}:
            raise UsageError(
                f"table {self._spec.name!r}: expected the arrays ids and values, got "
                f"{sorted(arrays)}"
            )
        ids = np.ascontiguousarray(arrays["ids"], np.int64)
        values = np.array(arrays["values"], order="C")
        self._require_shape("values", values, len(ids), self._spec.dim)
        if values.dtype != self.dtype:
            raise UsageError(
                f"table {self._spec.name!r}: expected {self.dtype}, got {values.dtype}"
            )
        if self._index is None:
            if not np.array_equal(ids, self._ids()):
                raise UsageError(
                    f"table {self._spec.name!r}: expected the rows {self._start}.."
                    f"{self._start + self._count - 1}, got {len(ids)} others"
                )
        else:
            self._index, self._count = self._index_of(ids), len(ids)
        self._snapshot = None  # the array that it looks at does not change any more
        self._values = values

    def _ids(self) -> Int64s:
        if self._index is not None:
            return self._index.ids
        return np.arange(self._start, self._start + self._count)

    def _initial(self, ids: Int64s | range) -> Array:
        shape, init = (len(ids), self._spec.dim), self._spec.init
        if isinstance(init, Zeros):  # memory that costs nothing until it is used
            return np.zeros(shape, self.dtype)
        if isinstance(init, Constant | Lowest | Highest):  # float32 cannot hold all of them
            return np.full(shape, begin_of(init, self.dtype), self.dtype)
        drawn = np.empty(shape, np.float32)
        fill_initial(init, self._key, np.asarray(ids, np.int64), drawn)
        return drawn.astype(self.dtype)

    def _make_rows(self, ids: Int64s) -> Int64s:
        if self._index is None:
            return ids - self._start
        rows = self._index.find_or_insert(ids)
        count = len(self._index)
        if count > self._count:
            if count > len(self._values):
                room = (max(count, 2 * len(self._values)), self._spec.dim)
                grown = np.empty(room, self.dtype)
                grown[: self._count] = self._values[: self._count]
                self._values = grown
            new_ids = self._index.ids[self._count :]
            self._values[self._count : count] = self._initial(new_ids)
            self._count = count
        return rows
