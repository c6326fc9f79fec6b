"""Rows of one table in the slots that take turns as one: found and stepped on in one call.

::

    id --cells--> row --> values[row]        dim float32
                          state[name][row]   what the optimizer keeps, float32

    rows    | slot 0: 0 1 2 . . | slot 1: 0 1 . . . | slot 2: 0 1 2 3 . |

A slot's rows lie side by side, numbered in the order of their first touch, and all have
the same room; if one has too little, all move to twice as much. So what is of one slot (a
cut, a load) is a stretch of each array, and what is of a batch is one look at one map. A
step of the table that has no row in a slot is told as well: all slots count alike.

Pure: no lock of its own; one call at a time per store.
"""

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np

from paceline.config import Combine, RowOptimizer
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows import compiled
from paceline.params.rows.combining import Array
from paceline.params.rows.compiled import Float32s, Int64s, empty_rows
from paceline.params.rows.id_map import empty_cells
from paceline.params.rows.initial import fill_initial, init_key
from paceline.params.rows.optimizers import (
    counts_table_steps,
    fill_new_state,
    state_widths,
    step,
)
from paceline.params.rows.snapshot import RowSnapshot


@final
class RowStore:
    """The rows of one table that learn, of some slots; see `RowTable`.

    What a call names of several slots is of each a stretch of its ids: the n-th has
    ``ids[ends[n]:ends[n + 1]]``.

    Attributes:
        counts: ``{slot: rows that were made}``.
        steps: ``{slot: steps of the whole table}``; stays where nobody asks.
        snapshots: ``{slot: the live one}``, which is told of rows before they change.
        values, state: all rows; of a slot's stretch as many are valid as it has.
    """

    def __init__(self, spec: TableSpec, seed: int) -> None:
        """Have no slot yet."""
        assert not isinstance(spec.optimizer, Combine)
        self.spec, self.optimizer = spec, spec.optimizer
        self.counts, self.steps = dict[int, int](), dict[int, int]()
        self.snapshots = dict[int, RowSnapshot]()
        self._counts_steps = counts_table_steps(self.optimizer)
        self._key = init_key(seed, spec.name)
        self._room = 0  # rows of a slot
        self._firsts = dict[int, int]()  # {slot: its first row}
        self._cells, self._known = empty_cells(0), np.empty(0, np.int64)
        self.values = np.empty((0, spec.dim), np.float32)
        self.widths = state_widths(self.optimizer, spec.dim)
        self.state = {n: np.empty((0, wide), np.float32) for n, wide in self.widths.items()}
        # Ids that were read last, and their rows: mostly they are what changes next.
        self._read: tuple[bytes, Int64s] = (b"", self._known)

    def add(self, slot: int) -> None:
        """Have another slot, which has no rows."""
        assert not self._room, "before there are rows"
        self.counts[slot] = self.steps[slot] = self._firsts[slot] = 0

    def ids(self, slot: int) -> Int64s:
        """The ids of a slot by row: a view, which does not change."""
        return self.stretch(slot, self._known)

    def stretch(self, slot: int, column: Array) -> Array:
        """A slot's rows of one of the arrays: a view, until rows are made."""
        first = self._firsts[slot]
        return column[first : first + self.counts[slot]]

    def find_all(self, ids: Int64s) -> Int64s | None:
        """The row of each id; None if any is not made yet."""
        rows = np.empty(len(ids), np.int64)
        return None if compiled.kernels.find(self._cells, ids, rows) else rows

    def gather_into(
        self,
        slots: Sequence[int],
        ends: Sequence[int],
        ids: Int64s,
        create: bool,
        out: Array,
    ) -> None:
        """See `RowTable.gather_into`."""
        require_shape(self.spec, "out", out, len(ids), self.spec.dim)
        rows = np.empty(len(ids), np.int64)
        if compiled.kernels.read(self._cells, ids, self.values, out, rows):
            places, values = self._unseen(ids, rows)
            compiled.kernels.put(values, places, out)
            if not create:
                return
            self._make_rows(slots, ends, ids, rows, places, values)
        self._read = ids.tobytes(), rows

    def apply(
        self,
        slots: Sequence[int],
        ends: Sequence[int],
        ids: Int64s,
        gradients: Float32s,
        rate: float = 1.0,
        optimizer: RowOptimizer | None = None,
    ) -> None:
        """See `RowTable.apply`."""
        require_shape(self.spec, "gradients", gradients, len(ids), self.spec.dim)
        numbers = self.count_steps(slots) if self._counts_steps else [0]
        if not len(ids):
            return
        known, rows = self._read
        if ids.tobytes() != known:
            rows = np.empty(len(ids), np.int64)
            if compiled.kernels.find(self._cells, ids, rows):
                self._make_rows(slots, ends, ids, rows, *self._unseen(ids, rows))
        if self.snapshots:
            self._keep(slots, ends, rows)
        if min(numbers) == max(numbers):
            self.step(rows, gradients, numbers[0], rate, optimizer)
            return
        for number, start, stop in zip(numbers, ends, ends[1:], strict=False):
            if start < stop:  # loaded as of other moments
                self.step(rows[start:stop], gradients[start:stop], number, rate, optimizer)

    def count_steps(self, slots: Sequence[int]) -> list[int]:
        """A step of the table begins in slots: which one it is in each, from 1."""
        steps = self.steps
        for slot in slots:
            steps[slot] += 1
        return [steps[slot] for slot in slots]

    def step(
        self,
        rows: Int64s,
        gradients: Float32s,
        number: int,
        rate: float,
        optimizer: RowOptimizer | None,
    ) -> None:
        """Take a step of that number on these rows, wherever they lie."""
        used = optimizer or self.optimizer
        step(used, self.values, self.state, rows, gradients, rate, number)

    def load(self, slot: int, ids: Int64s, columns: Mapping[str, Array]) -> None:
        """A slot has these rows from now on, and no others: distinct ids, all columns."""
        had_rows, self.counts[slot] = self.counts[slot] > 0, 0
        if had_rows or len(ids) > self._room:
            # Other arrays: a snapshot may look at these. Ids are spread evenly: what is
            # loaded next has about as many.
            self._lay_out(max(len(ids) + len(ids) // 8, self._room))
        if had_rows:
            self._number_again(sum(self.counts.values()) + len(ids))
        self._reserve(len(ids))
        self._insert((slot,), np.array([0, len(ids)], np.int64), ids)
        for name, array in columns.items():
            column = self.values if name == "values" else self.state[name]
            self.stretch(slot, column)[:] = array

    def _keep(self, slots: Sequence[int], ends: Sequence[int], rows: Int64s) -> None:
        """Rows of some slots are about to change."""
        for slot, start, stop in zip(slots, ends, ends[1:], strict=False):
            if (snapshot := self.snapshots.get(slot)) is not None:
                snapshot.keep(rows[start:stop] - self._firsts[slot])

    def _unseen(self, ids: Int64s, rows: Int64s) -> tuple[Int64s, Float32s]:
        """The places of row -1, ascending, and what the rows of these ids begin as."""
        (places,) = (rows < 0).nonzero()
        values = np.empty((len(places), self.spec.dim), np.float32)
        fill_initial(self.spec.init, self._key, ids[places], values)
        return places, values

    def _make_rows(
        self,
        slots: Sequence[int],
        ends: Sequence[int],
        ids: Int64s,
        rows: Int64s,
        places: Int64s,
        values: Float32s,
    ) -> None:
        """Make rows of the ids at these places, see `_unseen`, and name them in ``rows``.

        An id may be there twice: it has one row, and is counted as if it had two.
        """
        here = places.searchsorted(ends)
        new = zip(slots, (here[1:] - here[:-1]).tolist(), strict=True)
        most = max([self.counts[slot] + count for slot, count in new])
        if most > self._room:
            self._lay_out(max(most, 2 * self._room))
            compiled.kernels.find(self._cells, ids, rows)  # all lie elsewhere now
        self._reserve(len(places))
        rows[places] = made = self._insert(slots, here, ids[places])
        compiled.kernels.put(values, made, self.values)
        fill_new_state(self.optimizer, self.values, self.state, made)

    def _reserve(self, num_ids: int) -> None:
        """Have cells for so many more ids."""
        capacity = sum(self.counts.values()) + num_ids
        if capacity * 3 > len(self._cells) * 2:
            self._number_again(capacity)

    def _number_again(self, capacity: int) -> None:
        self._cells = empty_cells(capacity)
        for slot, count in self.counts.items():
            ids = self.ids(slot).copy()
            self.counts[slot] = 0
            self._insert((slot,), np.array([0, count], np.int64), ids)

    def _insert(self, slots: Sequence[int], ends: Int64s, ids: Int64s) -> Int64s:
        """The row of each id: of those that a slot has not, the next ones.

        No slot is named twice.
        """
        firsts, rows = self._firsts, np.empty(len(ids), np.int64)
        nexts = np.array([firsts[slot] + self.counts[slot] for slot in slots], np.int64)
        insert = compiled.kernels.insert_by_slot
        insert(self._cells, ids, ends, self._known, nexts, rows)
        for slot, behind in zip(slots, nexts.tolist(), strict=True):
            self.counts[slot] = behind - firsts[slot]
        return rows

    def _lay_out(self, room: int) -> None:
        """Have so much room for each slot."""
        begun = self._firsts
        self._firsts = {slot: number * room for number, slot in enumerate(begun)}

        def moved(column: Array) -> Array:
            made = empty_rows((len(begun) * room, *column.shape[1:]), column.dtype)
            for slot, first in begun.items():
                came = column[first : first + self.counts[slot]]
                made[self._firsts[slot] :][: len(came)] = came
            return made

        self._known, self.values = moved(self._known), moved(self.values)
        for name in self.state:  # one by one: what is left can go
            self.state[name] = moved(self.state[name])
        rows = self._cells[:, 1]
        known = np.flatnonzero(rows >= 0)
        rows[known] += rows[known] // max(1, self._room) * (room - self._room)
        self._room, self._read = room, (b"", self._known[:0])


def require_shape(spec: TableSpec, name: str, array: Array, *expected: int) -> None:
    """Refuse an array of a table that has another shape.

    Raises:
        UsageError: it has.
    """
    if array.shape != expected:
        raise UsageError(
            f"table {spec.name!r}: expected {name} of shape {expected}, got {array.shape}"
        )
