"""One table in one slot: the rows whose ids hash there, with their optimizer state.

::

    id --IdMap--> row --> values[row]         dim float32
                          state[name][row]    what the optimizer keeps, float32
    num_steps                                 of the whole table, where the optimizer asks

Rows are numbered in the order of their first touch; storage doubles. A step of the table
that has no row here is told as well, with no ids: all slots count alike.

Pure: no lock of its own; one call at a time per table and slot, slots in parallel.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np

from paceline.config import Combine, RowOptimizer
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows import compiled
from paceline.params.rows.combining import Array
from paceline.params.rows.compiled import Float32s, Int64s
from paceline.params.rows.id_map import IdMap
from paceline.params.rows.initial import fill_initial, init_key
from paceline.params.rows.optimizers import (
    counts_table_steps,
    fill_new_state,
    state_widths,
    step,
)
from paceline.params.rows.snapshot import RowSnapshot

TABLE_STEPS: Final = "table_steps"  # int64 (1,), beside the columns


class SlotTable(ABC):
    """The rows of one table that lie in one slot: what they are of, and their moments."""

    def __init__(self, spec: TableSpec, dtype: np.dtype[Any]) -> None:
        self._spec, self.dtype = spec, dtype
        self._snapshot: RowSnapshot | None = None  # told of rows before they change

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._spec.dim

    @abstractmethod
    def gather_into(self, ids: Int64s, create: bool, out: Array) -> None:
        """Write the rows of ``ids``, which may repeat, into ``out``, (n, dim).

        An unseen id reads its initial value.
        """

    @abstractmethod
    def _moment(self) -> RowSnapshot:
        """A snapshot of all rows."""

    def gather(self, ids: Int64s, create: bool) -> Array:
        """The rows of ``ids``, (n, dim): a copy; see `gather_into`."""
        out = np.empty((len(ids), self._spec.dim), self.dtype)
        self.gather_into(ids, create, out)
        return out

    def snapshot(self) -> RowSnapshot:
        """The rows of this moment; nothing is copied yet. One at a time is live.

        `release` must follow when it is no longer needed.
        """
        assert self._snapshot is None, f"table {self._spec.name!r} has a live snapshot"
        self._snapshot = self._moment()
        return self._snapshot

    def release(self) -> None:
        """Copy nothing more for the live snapshot, if there is one."""
        self._snapshot = None

    def _index_of(self, ids: Int64s) -> IdMap:
        """A map of ids to load, which are refused if any is repeated."""
        index = IdMap()
        index.find_or_insert(ids)
        if len(index) != len(ids):
            raise UsageError(
                f"table {self._spec.name!r}: {len(ids) - len(index)} of {len(ids)} ids "
                f"to load are repeated; expected each once"
            )
        return index

    def _require_shape(self, name: str, array: Array, *expected: int) -> None:
        if array.shape != expected:
            raise UsageError(
                f"table {self._spec.name!r}: expected {name} of shape {expected}, "
                f"got {array.shape}"
            )


@final
class RowTable(SlotTable):
    """The rows of one table that learn.

    Ids are int64 (n,), any value; rows and gradients float32 (n, dim); all C-contiguous,
    and what is only read may be read-only or unaligned.
    The job's ``seed`` decides a new row, with the table's name and the id.
    """

    def __init__(self, spec: TableSpec, seed: int) -> None:
        assert not isinstance(spec.optimizer, Combine)
        super().__init__(spec, np.dtype(np.float32))
        self._optimizer = spec.optimizer
        self._key = init_key(seed, spec.name)
        self._index = IdMap()
        # Of each array, the first len(self._index) rows are valid.
        self._values = np.empty((0, spec.dim), np.float32)
        self._widths = state_widths(self._optimizer, spec.dim)
        self._state = {
            name: np.empty((0, width), np.float32) for name, width in self._widths.items()
        }
        self._num_steps = 0  # of the table; stays where nobody asks

    def __len__(self) -> int:
        """How many rows were made."""
        return len(self._index)

    @property
    def optimizer(self) -> RowOptimizer:
        """What takes the steps."""
        return self._optimizer

    def gather_into(self, ids: Int64s, create: bool, out: Array) -> None:
        """See `SlotTable.gather_into`; with ``create`` rows of unseen ids are made."""
        self._require_shape("out", out, len(ids), self._spec.dim)
        if not self._index.read(ids, self._values, out):
            return
        if create:
            rows = self._insert(ids)  # which may move the values
            compiled.kernels.gather(self._values, rows, out)
            return
        unseen = np.flatnonzero(self._index.find(ids) < 0)
        initial = np.empty((len(unseen), self._spec.dim), np.float32)
        fill_initial(self._spec.init, self._key, ids[unseen], initial)
        out[unseen] = initial

    def apply(
        self,
        ids: Int64s,
        gradients: Float32s,
        rate: float = 1.0,
        optimizer: RowOptimizer | None = None,
    ) -> None:
        """Take one optimizer step on these rows; unseen ones are made first.

        ``ids`` must be unique: the gradients of equal ids are summed before. A row that
        is not named is not touched. ``rate`` multiplies the learning rate; ``optimizer``
        is the table's with other numbers, None: with its own.

        Raises:
            UsageError: the gradients have another shape; nothing has been changed.
        """
        self._require_shape("gradients", gradients, len(ids), self._spec.dim)
        number = self.count_step()
        if not len(ids):
            return
        rows = self._make_rows(ids)
        if self._snapshot is not None:
            self._snapshot.keep(rows)
        used = optimizer or self._optimizer
        step(used, self._values, self._state, rows, gradients, rate, number)

    def count_step(self) -> int:
        """A step of the table begins: which one it is, from 1. One call at a time."""
        self._num_steps += 1
        return self._num_steps

    def lacks(self, ids: Int64s) -> bool:
        """Whether the row of any of these ids is not made yet."""
        return self._index.find_all(ids) is None

    def made_rows(self, ids: Int64s) -> Int64s | None:
        """The row of each id, for `step_made`; None if `apply` alone may change them.

        That is if a row has to be made first, or a snapshot is live. Calls of it, of
        `step_made` and of `gather` without ``create`` may run beside each other: no array
        moves. Where two of them meet in a row, an element may keep one change only.
        """
        return None if self._snapshot is not None else self._index.find_all(ids)

    def step_made(
        self,
        rows: Int64s,
        gradients: Float32s,
        number: int,
        rate: float = 1.0,
        optimizer: RowOptimizer | None = None,
    ) -> None:
        """Take a step that `count_step` has numbered, on rows that `made_rows` has found.

        Otherwise as `apply`.
        """
        self._require_shape("gradients", gradients, len(rows), self._spec.dim)
        used = optimizer or self._optimizer
        step(used, self._values, self._state, rows, gradients, rate, number)

    def export(self) -> dict[str, Array]:
        """A copy of all rows, in the order of their first touch.

        ``ids`` (n,), ``values`` (n, dim), and each optimizer state by its name, (n, width);
        ``table_steps`` (1,), where the optimizer counts them.
        """
        count = len(self._index)
        columns = {"values": self._values, **self._state}
        copies: dict[str, Array] = {name: a[:count].copy() for name, a in columns.items()}
        return {"ids": self._index.ids.copy(), **copies, **self._counted()}

    def _moment(self) -> RowSnapshot:
        count = len(self._index)
        columns = {"values": self._values, **self._state}
        live = {name: array[:count] for name, array in columns.items()}
        return RowSnapshot(self._index.ids, live, self._counted())

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace all rows by what `export` returned; the table goes on identically.

        Raises:
            UsageError: an array is missing, too many or of another shape, or ids
                repeat; nothing has been changed.
        """
        expected = {"ids", "values", *self._state, *self._counted()}
        if arrays.keys() != expected:
            raise UsageError(
                f"table {self._spec.name!r}: expected the arrays {sorted(expected)}, got "
                f"{sorted(arrays)}: load it with the row optimizer it was saved with"
            )
        ids = np.ascontiguousarray(arrays["ids"], np.int64)
        for name, width in (("values", self._spec.dim), *self._widths.items()):
            self._require_shape(name, arrays[name], len(ids), width)
        if TABLE_STEPS in expected:
            self._require_shape(TABLE_STEPS, arrays[TABLE_STEPS], 1)
        index = self._index_of(ids)
        self._snapshot = None  # the arrays that it looks at do not change any more
        self._index = index
        self._values = _own(arrays["values"])
        self._state = {name: _own(arrays[name]) for name in self._state}
        self._num_steps = int(arrays[TABLE_STEPS][0]) if TABLE_STEPS in arrays else 0

    def _counted(self) -> dict[str, Array]:
        """What is of the whole table, and of no row."""
        if not counts_table_steps(self._optimizer):
            return {}
        return {TABLE_STEPS: np.array([self._num_steps], np.int64)}

    def _make_rows(self, ids: Int64s) -> Int64s:
        """The row of each id, which are mostly there."""
        rows = self._index.find_all(ids)
        return self._insert(ids) if rows is None else rows

    def _insert(self, ids: Int64s) -> Int64s:
        """The row of each id; new rows begin as they are specified."""
        known = len(self._index)
        rows = self._index.find_or_insert(ids)
        count = len(self._index)
        self._values = _with_room(self._values, known, count)
        new_ids = self._index.ids[known:]
        fill_initial(self._spec.init, self._key, new_ids, self._values[known:count])
        self._state = {
            name: _with_room(array, known, count) for name, array in self._state.items()
        }
        new_state = {name: array[known:count] for name, array in self._state.items()}
        fill_new_state(self._optimizer, self._values[known:count], new_state)
        return rows


def _with_room(array: Float32s, valid: int, count: int) -> Float32s:
    """The array with room for ``count`` rows, the first ``valid`` of them kept."""
    if count <= len(array):
        return array
    grown = np.empty((max(count, 2 * len(array)), array.shape[1]), np.float32)
    grown[:valid] = array[:valid]
    return grown


def _own(array: Array) -> Float32s:
    return np.array(array, np.float32, order="C")
