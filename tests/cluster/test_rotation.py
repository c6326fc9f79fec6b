"""A rotation: each cell once a round, blocks whole, the same bits for any number."""

import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import UsageError

ROWS, RECORDS, BLOCKS, PARTS = 30, 400, 6, 3
Run = Callable[..., list[Any]]


def touched() -> np.ndarray:
    return np.random.default_rng(1).integers(0, ROWS, RECORDS)


def groups() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 40, RECORDS)


def rotation(table: Any, **options: Any) -> Any:
    data = (np.arange(RECORDS), touched())
    known = {"group": groups(), "parts": PARTS, **options}
    return table.rotate(data, touched(), **known)


def count(cell: Any) -> None:
    numbers, rows = cell.data
    assert (numbers.numpy() == cell.positions).all()
    np.add.at(cell.rows, rows.numpy() - cell.ids[0], 1)


@pytest.mark.parametrize("trainers", [1, 2, 3, 4])
@pytest.mark.parametrize("slices", [1, 2])
def test_every_record_counts_once_a_round(run: Run, trainers: int, slices: int) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (ROWS, 2), "int64", blocks=BLOCKS)
        visits = session.table("visits", (None, PARTS), "int32")
        seen = []
        for cell in rotation(table, epochs=3, slices=slices):
            count(cell)
            visits.push([cell.block], np.eye(PARTS, dtype=np.int32)[cell.part][None])
            seen.append((session.epoch, cell.part, cell.block))
        return table.pull(), visits.pull(np.arange(BLOCKS)), seen

    found = run(script, trainers=trainers)
    for counts, visits, _ in found:
        wanted = np.bincount(touched(), minlength=ROWS)
        assert (counts == 3 * wanted[:, None]).all()
        assert (visits == 3).all()
    cells = Counter(cell for _, _, seen in found for cell in seen)
    assert len(cells) == 3 * PARTS * BLOCKS
    assert set(cells.values()) == {1}


def test_the_bits_are_the_same_for_any_number_of_trainers(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        begins = np.random.default_rng(3).normal(size=(ROWS, 4)).astype(np.float32)
        table = session.table("w", (ROWS, 4), init=begins, blocks=BLOCKS)
        for cell in rotation(table, epochs=2, seed=7):
            for row in touched()[cell.positions] - cell.ids[0]:
                cell.rows[row] = np.sin(3 * cell.rows[row]) + cell.part
        return table.pull()

    [alone] = run(script, trainers=1)
    for trainers in (2, 3):
        run.jobs[-1].close()  # type: ignore[attr-defined]
        for values in run(script, trainers=trainers):
            assert values.tobytes() == alone.tobytes()


def test_blocks_travel_from_trainer_to_trainer(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paceline.trainer")

    def script(session: paceline.Session) -> Any:
        table = session.table("count", (ROWS,), "int64", blocks=BLOCKS)
        for cell in rotation(table, epochs=3):
            count_flat(cell)
        return table.pull()

    for counts in run(script, trainers=PARTS):
        assert (counts == 3 * np.bincount(touched(), minlength=ROWS)).all()
    told = [re.search(r"(\d+) from other trainers", text) for text in caplog.messages]
    assert sum(int(found[1]) for found in told if found) > 0


def test_what_was_not_reached_in_time_comes_back_in_the_same_round(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (ROWS,), "int64", blocks=BLOCKS)
        visits = Counter()
        for cell in rotation(table, batch_size=4, step_s=1e-6, epochs=2):
            for positions in cell.batches():
                np.add.at(cell.rows, touched()[positions] - cell.ids[0], 1)
            visits[session.epoch, cell.part, cell.block] += 1
        return table.pull(), visits

    found = run(script, trainers=2)
    visits: Counter[Any] = Counter()
    for counts, seen in found:
        assert (counts == 2 * np.bincount(touched(), minlength=ROWS)).all()
        visits += seen
    assert len(visits) == 2 * PARTS * BLOCKS
    assert max(visits.values()) > 1  # time was over at least once


def test_a_trainer_is_told_which_data_parts_are_new_to_it(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("w", (ROWS,), blocks=BLOCKS)
        return [(cell.part, cell.is_new_part) for cell in rotation(table, epochs=2)]

    for seen in run(script, trainers=PARTS):
        new = [part for part, is_new in seen if is_new]
        assert len(new) == len(set(new)) == len({part for part, _ in seen})


def test_a_break_hands_the_open_cell_back_and_drops_its_changes(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (ROWS,), "int64", blocks=BLOCKS)
        for number, cell in enumerate(rotation(table)):
            count_flat(cell)
            if number == 4:
                break
        return table.pull()

    [counts] = run(script, trainers=1)
    assert 0 < counts.sum() < RECORDS


def count_flat(cell: Any) -> None:
    np.add.at(cell.rows, touched()[cell.positions] - cell.ids[0], 1)


@pytest.mark.parametrize(
    ("options", "shape", "match"),
    [
        ({}, (None,), "is keyed, and its blocks are no ranges"),
        ({"parts": 0}, (ROWS,), "parts must be a whole number >= 1, got 0"),
        ({"step_s": 1.0}, (ROWS,), "say batch_size"),
        ({"group": np.zeros(3)}, (ROWS,), "expected group as whole numbers"),
        ({"by": np.full(RECORDS, ROWS)}, (ROWS,), f"has 0..{ROWS - 1}; got {ROWS}"),
        ({"parts": 70_000}, (ROWS,), "take fewer parts"),
    ],
)
def test_what_cannot_rotate_is_refused(
    run: Run, options: Any, shape: Any, match: str
) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("w", shape, blocks=BLOCKS)
        known = {"by": touched(), **options}
        with pytest.raises(UsageError, match=match):
            next(iter(table.rotate(np.arange(RECORDS), **known)))

    run(script, trainers=1)


def test_rows_that_rotate_are_pushed_by_nobody_else(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("w", (ROWS,), blocks=BLOCKS)
        for _ in rotation(table):
            with pytest.raises(UsageError, match=r"change cell\.rows"):
                table.push([0], [1.0])

    run(script, trainers=1)
