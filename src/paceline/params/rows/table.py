"""One table in one slot: the rows whose ids hash there, with their optimizer state.

Those of a few slots may lie in one `RowStore`, which can be asked for all of them at once.

Pure: no lock of its own; one call at a time per table and store, stores in parallel.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np

from paceline.config import RowOptimizer
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows.combining import Array
from paceline.params.rows.compiled import Float32s, Int64s
from paceline.params.rows.id_map import IdMap
from paceline.params.rows.optimizers import counts_table_steps
from paceline.params.rows.row_store import RowStore, require_shape
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
        require_shape(self._spec, name, array, *expected)


@final
class RowTable(SlotTable):
    """The rows of one table that learn, in one slot.

    Ids are int64 (n,), any value; rows and gradients float32 (n, dim); all C-contiguous,
    and what is only read may be read-only or unaligned.
    The job's ``seed`` decides a new row, with the table's name and the id.

    Attributes:
        store: where its rows lie, perhaps with those of other slots.
    """

    def __init__(
        self, spec: TableSpec, seed: int, slot: int = 0, store: RowStore | None = None
    ) -> None:
        """Have no rows; ``store``: of the same spec and seed."""
        super().__init__(spec, np.dtype(np.float32))
        self.store, self._slot = store or RowStore(spec, seed), slot
        self.store.add(slot)

    def __len__(self) -> int:
        """How many rows were made."""
        return self.store.counts[self._slot]

    @property
    def optimizer(self) -> RowOptimizer:
        """What takes the steps."""
        return self.store.optimizer

    def snapshot(self) -> RowSnapshot:
        """See `SlotTable.snapshot`."""
        self.store.snapshots[self._slot] = super().snapshot()
        return self.store.snapshots[self._slot]

    def release(self) -> None:
        """See `SlotTable.release`."""
        super().release()
        self.store.snapshots.pop(self._slot, None)

    def gather_into(self, ids: Int64s, create: bool, out: Array) -> None:
        """See `SlotTable.gather_into`; with ``create`` rows of unseen ids are made."""
        self.store.gather_into((self._slot,), (0, len(ids)), ids, create, out)

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
        of_slot = (self._slot,), (0, len(ids))
        self.store.apply(*of_slot, ids, gradients, rate, optimizer)

    def count_step(self) -> int:
        """A step of the table begins: which one it is, from 1. One call at a time."""
        return self.store.count_steps((self._slot,))[0]

    def lacks(self, ids: Int64s) -> bool:
        """Whether the row of any of these ids is not made yet."""
        return self.store.find_all(ids) is None

    def made_rows(self, ids: Int64s) -> Int64s | None:
        """The row of each id, for `step_made`; None if `apply` alone may change them.

        That is if a row has to be made first, or a snapshot is live. Calls of it, of
        `step_made` and of `gather` without ``create`` may run beside each other: no array
        moves. Where two of them meet in a row, an element may keep one change only.
        """
        return None if self._snapshot is not None else self.store.find_all(ids)

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
        self.store.step(rows, gradients, number, rate, optimizer)

    def export(self) -> dict[str, Array]:
        """A copy of all rows, in the order of their first touch.

        ``ids`` (n,), ``values`` (n, dim), and each optimizer state by its name, (n, width);
        ``table_steps`` (1,), where the optimizer counts them.
        """
        copies = {name: column.copy() for name, column in self._columns().items()}
        return {"ids": self.store.ids(self._slot).copy(), **copies, **self._counted()}

    def _moment(self) -> RowSnapshot:
        return RowSnapshot(self.store.ids(self._slot), self._columns(), self._counted())

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace all rows by what `export` returned; the table goes on identically.

        Raises:
            UsageError: an array is missing, too many or of another shape, or ids
                repeat; nothing has been changed.
        """
        columns = {"values": self._spec.dim, **self.store.widths}
        expected = {"ids", *columns, *self._counted()}
        if arrays.keys() != expected:
            raise UsageError(
                f"table {self._spec.name!r}: expected the arrays {sorted(expected)}, got "
                f"{sorted(arrays)}: load it with the row optimizer it was saved with"
            )
        ids = np.ascontiguousarray(arrays["ids"], np.int64)
        for name, width in columns.items():
            self._require_shape(name, arrays[name], len(ids), width)
        if TABLE_STEPS in expected:
            self._require_shape(TABLE_STEPS, arrays[TABLE_STEPS], 1)
        self._index_of(ids)
        self.release()  # the arrays that it looks at do not change any more
        self.store.load(self._slot, ids, {name: arrays[name] for name in columns})
        steps = int(arrays[TABLE_STEPS][0]) if TABLE_STEPS in arrays else 0
        self.store.steps[self._slot] = steps

    def _columns(self) -> dict[str, Array]:
        """Values and state of the slot's rows: views."""
        columns = {"values": self.store.values, **self.store.state}
        return {n: self.store.stretch(self._slot, a) for n, a in columns.items()}

    def _counted(self) -> dict[str, Array]:
        """What is of the whole table, and of no row."""
        if not counts_table_steps(self.optimizer):
            return {}
        return {TABLE_STEPS: np.array([self.store.steps[self._slot]], np.int64)}
