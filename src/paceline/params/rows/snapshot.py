"""The rows of a table as of one moment, while the table goes on: copied little by little.

::

    live rows    | page 0 | page 1 | page 2 | new rows     a page is 4,096 rows
    copies       | page 0 |        |        |              pages, each in its turn
    kept         |        |  .  .  |  .     |              rows, before their first change

Whoever is about to change rows calls `RowSnapshot.keep` first; whoever wants the moment
calls `RowSnapshot.copy_some` until nothing is left. A push pays for its own rows only: if
it copied whole pages, one batch of random ids would copy the whole table. They are kept
apart, since touching a large new array here and there costs as much. A table that
grows moves to larger arrays and leaves the old ones to the snapshot, where they do not
change any more.

Pure: no lock of its own; calls for one table one at a time, as for the table.
"""

from collections.abc import Mapping
from typing import Final, final

import numpy as np

from paceline.params.rows.compiled import Float32s, Int64s

PAGE_ROWS: Final = 4096


@final
class RowSnapshot:
    """Rows as they were when this was made.

    ``ids`` (n,), by row, must not change. ``columns`` are the live arrays (n, width) by
    name, values and state; they may change in rows that `keep` was told of before.
    ``whole``: what is of the whole table, by name; the snapshot's own.
    """

    def __init__(
        self,
        ids: Int64s,
        columns: Mapping[str, Float32s],
        whole: Mapping[str, Int64s] | None = None,
    ) -> None:
        self._ids, self._whole = ids, dict(whole or {})
        self._live = dict(columns)
        # Untouched memory costs nothing until rows are copied into it.
        self._copies = {name: np.empty_like(live) for name, live in columns.items()}
        self._next = 0  # all pages below this row are copied
        self._is_kept = np.zeros(len(ids), np.bool_)  # by row
        self._kept: list[tuple[Int64s, dict[str, Float32s]]] = []  # rows, columns

    def keep(self, rows: Int64s) -> None:
        """Copy ``rows``, int64 (n,), any order, where it is not done: they will change."""
        own = rows[(rows >= self._next) & (rows < len(self._ids))]
        own = own[~self._is_kept[own]]
        if len(own):
            self._kept.append((own, {name: live[own] for name, live in self._live.items()}))
            self._is_kept[own] = True

    def copy_some(self, max_pages: int) -> bool:
        """Copy the next pages, so many at most; whether all are copied."""
        stop = min(self._next + max_pages * PAGE_ROWS, len(self._ids))
        for name, live in self._live.items():
            self._copies[name][self._next : stop] = live[self._next : stop]
        self._next = stop
        return stop == len(self._ids)

    def arrays(self) -> dict[str, Float32s | Int64s]:
        """``ids``, all columns and what is of the whole, as of the moment; the caller's.

        All must be copied. From then on the table's calls may run beside this one.
        """
        assert self._next == len(self._ids), f"only {self._next} rows are copied yet"
        for rows, columns in self._kept:
            for name, values in columns.items():
                self._copies[name][rows] = values
        return {"ids": self._ids, **self._copies, **self._whole}
