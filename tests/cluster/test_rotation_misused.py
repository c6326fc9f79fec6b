"""What a rotation is not for is refused; nothing of it gets into another cell."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import UsageError

ROWS, BLOCKS, PARTS = 6, 3, 2
BY = np.arange(24) % ROWS
Run = Callable[..., list[Any]]


def rotation(table: Any, **options: Any) -> Any:
    return table.rotate(np.arange(len(BY)), BY, parts=PARTS, slices=1, **options)


def test_rows_that_are_updated_in_rounds_do_not_go_round(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        pace = paceline.Sync(reduce="sum")
        table = session.table("w", (ROWS,), blocks=BLOCKS, pace=pace)
        with pytest.raises(UsageError, match="before its rows are there"):
            rotation(table)

    run(script, trainers=1)


def test_rows_of_another_kind_are_refused_before_they_leave(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("w", (ROWS, 2), "float64", blocks=BLOCKS)
        cells = rotation(table)
        next(cells).rows = np.ones((2, 2), np.float32)
        next(cells).rows = np.ones((2, 2), np.complex64)
        with pytest.raises(UsageError, match=r"cell\.rows: expected \(2, 2\) of float64"):
            next(cells)
        return table.pull()

    [rows] = run(script, trainers=1)
    assert rows.sum() == 4, "those of the first cell, as float64"


def test_rows_of_another_shape_are_refused_before_they_leave(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("w", (ROWS, 2), "float64", blocks=BLOCKS)
        cells = rotation(table)
        next(cells).rows = np.ones((4, 1))
        with pytest.raises(UsageError, match=r"expected \(2, 2\) of float64, got \(4, 1\)"):
            next(cells)

    run(script, trainers=1)


def test_a_cell_is_not_flushed_half_way(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("w", (ROWS,), "int64", blocks=BLOCKS)
        for cell in rotation(table):
            np.add.at(cell.rows, BY[cell.positions] - cell.ids[0], 1)
            with pytest.raises(UsageError, match="a cell is over when the next one"):
                table.flush()
        return table.pull()

    [rows] = run(script, trainers=1)
    assert rows.tolist() == np.bincount(BY).tolist()


def test_rows_may_hold_infinities(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("w", (ROWS,), init=np.full(ROWS, -np.inf), blocks=BLOCKS)
        for cell in rotation(table):
            cell.rows[0] = max(cell.rows[0], 1.0 + cell.block)
        return table.pull()

    [rows] = run(script, trainers=1)
    assert rows.tolist() == [1, -np.inf, 2, -np.inf, 3, -np.inf]
