"""Replicated tables: a copy has all of one's own, and others' as of the period."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline import SSP, Async, Sync, UsageError

Run = Callable[..., list[Any]]
DATA = torch.arange(48)


@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
@pytest.mark.parametrize("every", [1, 3])
def test_what_is_pushed_counts_once_and_own_pushes_are_never_missed(
    run: Run, every: int, *, atomic: bool
) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("sums", (2, 3), "int64", atomic=atomic, replicate_every=every)
        other = session.table("other", (40,), "int64", atomic=atomic)
        seen = []
        for own, batch in enumerate(session.batches(DATA, 4, epochs=3)):
            found = table.pull()
            assert (found >= own).all()
            table.push(None, [1, 1, 1])
            table.push([1, 1], [[1, 2, 3], [-1, -2, -3]])
            assert (table.pull([1, 0, 1]) == found[[1, 0, 1]] + 1).all()
            other.push(batch % 40, 1)
            seen.append(int(found[0, 0]))
        return seen, table.pull().tolist(), int(other.pull().sum())

    for seen, sums, others in run(script):
        assert seen == sorted(seen)
        assert sums == [[36] * 3] * 2
        assert others == 3 * 48


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_copy_is_never_older_than_its_period(run: Run, every: int) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("sums", (1,), "int64", replicate_every=every)
        latest = [0]  # as servers had it when each batch began
        for _ in session.batches(DATA, 2):
            held = table._rows.replica
            assert held is not None
            found = int(table.pull()[0])
            assert found >= latest[-1 - min(every, len(latest) - 1)]
            table._rows.replica = None
            latest.append(int(table.pull()[0]))
            table._rows.replica = held
            table.push([0], [1])

    run(script)


def test_a_trainer_alone_reads_what_it_would_read_without_a_copy(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        copied = session.table("copied", (4,), "float32", replicate_every=2)
        table = session.table("asked", (4,), "float32")
        for batch in session.batches(DATA, 5, epochs=2):
            values = np.random.default_rng(int(batch[0])).normal(size=len(batch))
            for one in (copied, table):
                one.push(batch % 4, values)
            assert copied.pull().tobytes() == table.pull().tobytes()

    run(script, trainers=1)


def test_in_a_loop_servers_are_asked_once_a_period(run: Run) -> None:
    def script(session: paceline.Session) -> int:
        table = session.table("sums", (3,), "int64", replicate_every=4)
        seat, asked = table._rows._reader, []
        wait_rows = seat.wait_rows
        seat.wait_rows = lambda *words, **more: (asked.append(1), wait_rows(*words, **more))
        for _ in session.batches(DATA, 2):
            table.pull()
            table.push([0, 1, 2], [1, 1, 1])
        waited = len(asked)
        assert table.pull().tolist() == [24] * 3
        assert len(asked) == waited + 1
        return waited

    assert run(script, trainers=1) == [1]


def test_outside_of_a_loop_servers_are_asked(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("sums", (1,), "int64", replicate_every=9)
        for _ in range(3):
            before = int(table.pull()[0])
            for _ in session.batches(DATA[:1], 1):
                table.push([0], [5])
            assert table.pull() == before + 5
            table.push([0], [1])
            assert table.pull() == before + 6

    run(script, trainers=1)


def test_pushes_that_are_not_finite_are_in_no_copy(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("sums", (2,), "float64", replicate_every=3)
        for number, _ in enumerate(session.batches(DATA, 12)):
            table.push([0, 1], [1.0, np.nan if number == 1 else 1.0])
        assert table.pull().tolist() == [3.0, 3.0]

    with pytest.warns(UserWarning, match="not finite"):
        run(script, trainers=1)


def test_the_greatest_is_in_the_copy(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("best", (2,), "int64", combine="max", replicate_every=1)
        best = 0
        for batch in session.batches(DATA, 4):
            table.push([0], [int(batch.max())])
            best = max(best, int(batch.max()))
            assert table.pull([0]) >= best

    run(script)


def test_blocks_of_another_table_go_round_beside_a_copy(run: Run) -> None:
    records = np.random.default_rng(3).integers(0, 24, 300)

    def script(session: paceline.Session) -> Any:
        counts = session.table("counts", (24,), "int64", blocks=6)
        sums = session.table("sums", (1,), "int64", replicate_every=2)
        own = 0
        for cell in counts.rotate(torch.from_numpy(records), by=records, epochs=3):
            assert sums.pull()[0] >= own
            np.add.at(cell.rows, records[cell.positions] - cell.ids[0], 1)
            sums.push([0], [len(cell.positions)])
            own += len(cell.positions)
        return counts.pull().tolist(), sums.pull().tolist()

    wanted = (3 * np.bincount(records, minlength=24)).tolist()
    assert run(script) == [(wanted, [900])] * 3


@pytest.mark.parametrize(
    ("shape", "more", "reason"),
    [
        ((None,), {"replicate_every": 1}, "a keyed table has no end"),
        ((2,), {"replicate_every": 1, "combine": "replace"}, "a copy is older"),
        ((2,), {"replicate_every": 0}, "expected 1 batch or more, got 0"),
        ((2,), {"replicate_every": True}, "expected 1 batch or more, got True"),
        ((2,), {"replicate_every": 1, "pace": SSP(2)}, "a copy would be older"),
        ((2,), {"replicate_every": 1, "pace": Sync(reduce="sum")}, "use async"),
        ((2,), {"replicate_every": 1, "pace": Async(push_every=2)}, "use async"),
    ],
)
def test_what_cannot_be_copied_is_refused(
    run: Run, shape: Any, more: dict[str, Any], reason: str
) -> None:
    def script(session: paceline.Session) -> None:
        with pytest.raises(UsageError, match=reason):
            session.table("sums", shape, "int64", **more)

    run(script, trainers=1)


def test_rows_that_are_copied_are_not_locked_and_do_not_go_round(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("sums", (4,), "int64", replicate_every=1)
        with pytest.raises(UsageError, match="lock: table 'sums' is replicated"):
            table.lock([0])
        with pytest.raises(UsageError, match="rotate: table 'sums' is replicated"):
            table.rotate(DATA, by=DATA % 4)

    run(script, trainers=1)
