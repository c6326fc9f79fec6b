"""An id map: any int64 id -> the index of its row, in the order of arrival.

Open addressing with linear probing; at most two thirds of the cells are taken, and their
number doubles. Emptiness is a row of -1, so no id is special.

Pure: no lock of its own; one call at a time.
"""

from typing import Final, final

import numpy as np

from paceline.params.rows import compiled
from paceline.params.rows.compiled import Int64s

_EMPTY: Final = -1


def empty_cells(capacity: int) -> Int64s:
    """Cells of a map without ids, room for ``capacity`` ids at two thirds full."""
    size = 16
    while size * 2 < capacity * 3:
        size *= 2
    return np.full((size, 2), _EMPTY, np.int64)


@final
class IdMap:
    """Int64 ids, numbered from 0 in the order in which they were first seen."""

    def __init__(self) -> None:
        self._cells = empty_cells(0)
        self._known = np.empty(0, np.int64)  # ids by row, the first `_count` are valid
        self._count = 0

    def __len__(self) -> int:
        """How many ids are known."""
        return self._count

    @property
    def ids(self) -> Int64s:
        """The known ids by row: a view, valid until the next `find_or_insert`."""
        return self._known[: self._count]

    def find(self, ids: Int64s) -> Int64s:
        """The row of each id, -1 where unknown; shape (n,)."""
        rows = np.empty(len(ids), np.int64)
        compiled.kernels.find(self._cells, ids, rows)
        return rows

    def find_or_insert(self, ids: Int64s) -> Int64s:
        """The row of each id, shape (n,); unknown ids get the next rows, in their order."""
        self._reserve(self._count + len(ids))
        rows = np.empty(len(ids), np.int64)
        self._count = compiled.kernels.find_or_insert(
            self._cells, ids, self._known, self._count, rows
        )
        return rows

    def _reserve(self, capacity: int) -> None:
        """Make room for this many ids, as if all that come were new."""
        if capacity > len(self._known):
            known = np.empty(max(capacity, 2 * len(self._known)), np.int64)
            known[: self._count] = self.ids
            self._known = known
        if capacity * 3 > len(self._cells) * 2:
            self._cells = empty_cells(capacity)
            rows = np.empty(self._count, np.int64)
            compiled.kernels.find_or_insert(
                self._cells, self.ids.copy(), self._known, 0, rows
            )
