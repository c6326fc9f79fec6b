"""Rows under a lock: one trainer at a time, the latest values, written as one or not."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline import Async, LockTimeout, Sync, UsageError
from paceline.data.order import records_at

IDS, RECORDS, BATCH = 40, 203, 7
Run = Callable[..., list[Any]]


def records() -> np.ndarray:
    return np.random.default_rng(1).integers(0, IDS, RECORDS)


def batches(session: paceline.Session, epochs: int = 1) -> Any:
    return session.batches(torch.from_numpy(records()), BATCH, epochs=epochs, task_size=14)


@pytest.mark.parametrize("rows", [IDS, None], ids=["dense", "keyed"])
@pytest.mark.parametrize("rule", ["add", "replace"])
def test_what_every_batch_read_and_wrote_is_there_once(
    run: Run, rows: int | None, rule: str
) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (rows, 2), "int64", combine=rule, pace=Async())
        for ids in batches(session, epochs=2):
            here, counts = np.unique(ids.numpy(), return_counts=True)
            with table.lock(here) as held:
                held.values += counts[:, None]
        return table.pull(np.arange(IDS))

    wanted = 2 * np.bincount(records(), minlength=IDS)
    for found in run(script):
        assert (found == wanted[:, None]).all()


def test_outside_of_a_loop_increments_under_a_lock_are_all_there(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (10, 1), "int64")
        ids = np.array([9, 0, 4])
        for _ in range(20):
            with table.lock(ids) as held:
                assert held.ids is not None
                held.values += [[3], [1], [2]]
        session.save()
        return table.pull()[:, 0].tolist()

    found = run(script)
    last = max(found)
    assert last[9] == 3 * 60
    assert last[0] == 60
    assert last[4] == 2 * 60


def test_tables_locked_in_one_another_are_written_as_one(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        w = session.table("w", (IDS, 3), "float64")
        h = session.table("h", (None, 2), "int32")
        for ids in batches(session):
            here = np.unique(ids.numpy())
            with w.lock(here) as users, h.lock([3]) as items:
                users.values += 1
                items.values[0] += len(here)
        return w.pull().sum(), h.pull([3])[0].tolist()

    wanted = sum(
        len(np.unique(part)) for part in np.split(records()[batch_order()], splits())
    )
    for total, counted in run(script):
        assert total == 3 * wanted
        assert counted == [wanted] * 2


def batch_order() -> Any:
    """The order of epoch 0, as the queue has it."""
    return records_at(np.arange(RECORDS), RECORDS, 0, 0, True)


def splits() -> list[int]:
    """Where batches begin."""
    tasks = range(0, RECORDS, 14)
    return sorted({start + k for start in tasks for k in (0, 7)} - {0})


def test_a_block_that_raises_writes_nothing(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (4,), "int64")
        with pytest.raises(ZeroDivisionError), table.lock([1, 2]) as held:
            held.values += 1 // int(held.values.sum())
        with table.lock([2], timeout_s=5.0) as held:
            held.values += 1
        return table.pull().tolist()

    assert run(script, trainers=1) == [[0, 0, 1, 0]]


def test_who_waits_too_long_is_told_who_has_the_rows(run: Run) -> None:
    is_had, is_told = threading.Event(), threading.Event()

    def script(session: paceline.Session) -> Any:
        table = session.table("t", (4,), "int64")
        if session.once("holds"):
            with table.lock([1, 2]):
                is_had.set()
                assert is_told.wait(30)
            return ""
        assert is_had.wait(30)
        with pytest.raises(LockTimeout) as error, table.lock([2, 3], timeout_s=0.1):
            pass
        is_told.set()
        with table.lock([2, 3]):
            pass
        return str(error.value)

    said = "".join(run(script, trainers=2))
    assert "holds row 2 since" in said
    assert "not had within 0.1 s" in said


def test_readers_share_rows_and_cannot_change_them(run: Run) -> None:
    together = threading.Barrier(3)

    def script(session: paceline.Session) -> None:
        table = session.table("t", (4,), "int64", init=np.arange(4))
        with table.lock(None, shared=True) as held:
            together.wait(30)
            assert held.values.tolist() == [0, 1, 2, 3]
            with pytest.raises(ValueError, match="read-only"):
                held.values += 1

    run(script)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"ids": [1, 1]}, "each id"),
        ({"ids": [4]}, "rows 0..3"),
        ({"timeout_s": -1.0}, "timeout_s >= 0"),
        ({"lease_s": 0.1}, "lease_s between 2 and 3600"),
        ({"pace": Sync(reduce="sum")}, "in rounds"),
        ({"pace": Async(push_every=2)}, "leave push out"),
    ],
)
def test_a_lock_that_cannot_be_is_refused(
    run: Run, arguments: dict[str, Any], says: str
) -> None:
    def script(session: paceline.Session) -> None:
        pace = arguments.pop("pace", None)
        table = session.table("t", (4,), pace=pace or Async())
        with pytest.raises(UsageError, match=says), table.lock(**{"ids": [0], **arguments}):
            pass

    run(script, trainers=1)


def test_locks_are_nested_in_the_order_of_tables_only(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        first, second = session.table("a", (4,)), session.table("b", (4,))
        for inner in (first, second):
            with (
                pytest.raises(UsageError, match="in the order in which"),
                second.lock([0]),
                inner.lock([1]),
            ):
                pass

    run(script, trainers=1)


def test_a_batch_has_one_write_of_a_table(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table, other = session.table("a", (4,), "int64"), session.table("b", (4,), "int64")
        for _ in batches(session):
            other.push([0], 1)
            with pytest.raises(UsageError, match="pushed to table 'b' already"):
                other.lock([1]).__enter__()
            with table.lock([0], shared=True) as seen:
                before = int(seen.values[0])
            with table.lock([0, 1]) as held:
                held.values += 1
                assert held.values[0] == before + 1
            with pytest.raises(UsageError, match="smaller batches"):
                table.lock([0]).__enter__()
            with pytest.raises(UsageError, match="the batch is over"):
                table.push([0], 1)
        return table.pull().tolist(), other.pull().tolist()

    number = -(-RECORDS // BATCH)
    [found] = run(script, trainers=1)
    assert found == ([number, number, 0, 0], [number, 0, 0, 0])


def test_values_that_cannot_be_written_are_refused(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (4, 2))
        with (
            pytest.raises(UsageError, match="change them in place"),
            table.lock([0]) as held,
        ):
            held.values = np.zeros(3)
        with pytest.raises(UsageError, match="not finite"), table.lock([0]) as held:
            held.values += np.nan
        with table.lock([0], timeout_s=5.0) as held:
            held.values += 1
        return table.pull([0]).tolist()

    assert run(script, trainers=1) == [[[1.0, 1.0]]]


def test_what_a_batch_writes_to_atomic_tables_is_one_step(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        first = session.table("a", (4,), "int64", atomic=True)
        other = session.table("b", (None,), "int64")
        second = session.table("c", (None, 2), "float64", atomic=True)
        for ids in batches(session):
            first.push([1, 2], 1)
            other.push(ids, 1)
            second.push(ids, np.ones(2))
        return first.pull().tolist(), second.pull(np.arange(IDS))[:, 0].tolist()

    number = -(-RECORDS // BATCH)
    wanted = np.bincount(records(), minlength=IDS).tolist()
    for found in run(script):
        assert found == ([0, number, number, 0], wanted)


def test_a_table_in_rounds_is_not_atomic_by_itself(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        for pace, says in ((Sync(reduce="sum"), "rounds"), (Async(push_every=3), "push")):
            with pytest.raises(UsageError, match=says):
                session.table("t", (4,), atomic=True, pace=pace)

    run(script, trainers=1)


def test_only_rows_that_a_block_has_changed_are_written(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        begins = np.full(4, -np.inf)
        table = session.table("best", (4,), "float64", combine="max", init=begins)
        with table.lock(None) as held:
            held.values[2] = 7.0
        with table.lock([0, 1]):
            pass
        return table.pull().tolist()

    assert run(script, trainers=1) == [[-np.inf, -np.inf, 7.0, -np.inf]]


def test_what_versions_did_is_refused_with_the_block_that_does_it(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("t", (4,), "int64", combine="replace")
        instead = r"given up: a lock block says the same.*with table\.lock\(ids\) as rows"
        with pytest.raises(UsageError, match=f"pull: versions are {instead}"):
            table.pull([1, 2], versions=True)
        with pytest.raises(UsageError, match=f"push: if_version is {instead}"):
            table.push([1, 2], [5, 5], if_version=np.zeros(2, np.int64))
        with pytest.raises(UsageError, match=r"'t' are replaced.*use table\.lock\(ids\)"):
            table.push([1, 2], [5, 5])
        assert not table.pull().any()

    run(script, trainers=1)


def test_rows_that_others_have_changed_meanwhile_are_computed_anew(run: Run) -> None:
    """As the page about tables writes it."""

    def script(session: paceline.Session) -> Any:
        table = session.table("t", (40, 2), "int64", combine="replace", pace=Async())
        data = torch.from_numpy(np.arange(400) % 40)
        for ids in session.batches(data, 8, task_size=40):
            rows, counts = np.unique(ids.numpy(), return_counts=True)
            read = table.pull(rows)
            new = read + counts[:, None]
            with table.lock(rows) as mine:
                is_same = (mine.values == read).all()
                mine.values[...] = new if is_same else mine.values + counts[:, None]
        return table.pull().tolist()

    for found in run(script):
        assert found == [[10, 10]] * 40
