"""What the user's loop gets of a rotation: a cell, with its records and its rows.

Waits: for the data set, in `Cell.data`. The thread of the user's loop calls.
"""

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from paceline.params.rows import Array

Int64s = NDArray[np.int64]


@final
class Cell:
    """One data part's records that touch one block of the table, and the block's rows.

    Nobody else has this block or this data part meanwhile. When the loop asks for the next
    cell, `rows` are the block's new values, together with all that was pushed to other
    tables: exactly once, whoever dies.

    Attributes:
        part: the data part.
        block: the block of the table.
        ids: int64 (m,), the rows of the block: a range, ascending.
        rows: (m, ...), their values, of the table's dtype; change them in place.
        positions: int64 (n,), the records of this visit, ascending; may be none.
        is_new_part: what this trainer knows of the data part from before, if anything, is
            out of date: another one has had it since, or what it did was lost.
        waited_s: how long this trainer has waited for the cell and its rows.
    """

    def __init__(  # noqa: PLR0913  (plain fields, each named)
        self,
        *,
        part: int,
        block: int,
        ids: Int64s,
        rows: Array,
        positions: Int64s,
        read: Callable[[Int64s], Any],
        batch_size: int,
        is_new_part: bool,
        waited_s: float,
        time_is_over: Callable[[], bool],
    ) -> None:
        self.part, self.block = part, block
        self.ids, self.rows, self.positions = ids, rows, positions
        self.is_new_part, self.waited_s = is_new_part, waited_s
        self._read, self._batch_size = read, batch_size
        self._time_is_over = time_is_over
        self._data: Any = None
        self._trained: int | None = None  # batches, if they are taken one by one

    @property
    def data(self) -> Any:  # noqa: ANN401  (the user's data)
        """The records of `positions`, as the data set makes a batch: read when asked."""
        if self._data is None:
            self._data = self._read(self.positions)
        return self._data

    def batches(self) -> Iterator[Int64s]:
        """The positions of this visit, batch by batch, until time is over.

        Those that were not reached, or behind a ``break``, are trained when the block comes
        to this data part again, in this round. The first always is.
        """
        self._trained = 0
        for start in range(0, max(len(self.positions), 1), self._batch_size):
            if self._trained and self._time_is_over():
                return
            self._trained += 1
            yield self.positions[start : start + self._batch_size]

    def num_trained(self) -> int:
        """Batches of this visit that the loop is done with: all, unless it said others."""
        if self._trained is None:
            return max(-(-len(self.positions) // self._batch_size), 1)
        return max(self._trained, 1)

    def __repr__(self) -> str:
        counts = f"{len(self.positions)} records, {len(self.ids)} rows"
        return f"Cell(part={self.part}, block={self.block}, {counts})"
