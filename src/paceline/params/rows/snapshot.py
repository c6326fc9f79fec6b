"""The rows of a table as of one moment, while the table goes on: copied page by page.

::

    live rows    | page 0 | page 1 | page 2 | new rows
                      |        |                          a page is 4,096 rows
    copies       | page 0 | page 1 |        |             copied before its first change,
                                                          or when it is its turn

Whoever is about to change rows calls `RowSnapshot.keep` first; whoever wants the moment
calls `RowSnapshot.copy_some` until nothing is left. A table that grows moves to larger
arrays and leaves the old ones to the snapshot: they do not change any more.

Pure: no lock of its own; calls for one table one at a time, as for the table.
"""

from collections.abc import Mapping
from typing import Final, final

import numpy as np

from paceline.params.rows.kernels import Float32s, Int64s

PAGE_ROWS: Final = 4096


@final
class RowSnapshot:
    """Rows as they were when this was made.

    Args:
        ids: int64 (n,), by row; must not change.
        columns: the live arrays by name, float32 (n, width), values and state; they may
            change in rows that `keep` was told of before.
    """

    def __init__(self, ids: Int64s, columns: Mapping[str, Float32s]) -> None:
        self._ids = ids
        self._live = dict(columns)
        # Untouched memory costs nothing until a page is copied into it.
        self._copies = {name: np.empty_like(live) for name, live in columns.items()}
        self._is_copied = np.zeros(-(-len(ids) // PAGE_ROWS), np.bool_)
        self._next = 0  # all pages below are copied

    @property
    def num_left(self) -> int:
        """Pages that are not copied yet."""
        return int(np.count_nonzero(~self._is_copied))

    def keep(self, rows: Int64s) -> None:
        """Copy what holds ``rows``, int64 (n,), any order; they are about to change."""
        own = rows[rows < len(self._ids)]
        is_touched = np.zeros(len(self._is_copied), np.bool_)
        is_touched[own // PAGE_ROWS] = True
        for page in np.flatnonzero(is_touched & ~self._is_copied):
            self._copy(int(page))

    def copy_some(self, max_pages: int) -> bool:
        """Copy the next pages, so many at most; whether all are copied."""
        while max_pages > 0 and self._next < len(self._is_copied):
            if not self._is_copied[self._next]:
                self._copy(self._next)
                max_pages -= 1
            self._next += 1
        return self._next == len(self._is_copied)

    def arrays(self) -> dict[str, Float32s | Int64s]:
        """``ids`` and all columns as of the moment, the caller's; all must be copied."""
        assert self.num_left == 0, f"{self.num_left} pages are not copied yet"
        return {"ids": self._ids, **self._copies}

    def _copy(self, page: int) -> None:
        rows = slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS)
        for name, live in self._live.items():
            self._copies[name][rows] = live[rows]
        self._is_copied[page] = True
