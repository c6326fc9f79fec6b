"""Rows that are replaced only if nobody has changed them since they were read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline import Async, UsageError

IDS, RECORDS, BATCH = 40, 203, 7
Run = Callable[..., list[Any]]


def records() -> np.ndarray:
    return np.random.default_rng(1).integers(0, IDS, RECORDS)


@pytest.mark.parametrize("rows", [IDS, None], ids=["dense", "keyed"])
@pytest.mark.parametrize("dtype", ["int64", "float32", "uint8"])
def test_what_every_batch_has_read_and_replaced_is_there_once(
    run: Run, rows: int | None, dtype: str
) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (rows, 2), dtype, combine="replace", pace=Async())
        for ids in session.batches(
            torch.from_numpy(records()), BATCH, epochs=2, task_size=14
        ):
            here, counts = np.unique(ids.numpy(), return_counts=True)
            while True:
                found, versions = table.pull(here, versions=True)
                new = found + counts[:, None].astype(dtype)
                if not len(table.push(here, new, if_version=versions)):
                    break
        return table.pull(np.arange(IDS))

    wanted = 2 * np.bincount(records(), minlength=IDS)
    for found in run(script):
        assert (found == wanted[:, None]).all()


def test_an_old_version_changes_nothing_and_says_which_rows(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (9, 2), "int64", combine="replace")
        ids = np.array([8, 0, 4])
        _, before = table.pull(ids, versions=True)
        first = table.push([4], [[7, 7]], if_version=before[2:])
        second = table.push(ids, np.ones((3, 2), int), if_version=before)
        _, now = table.pull(ids, versions=True)
        third = table.push(ids, np.ones((3, 2), int), if_version=now)
        return [one.tolist() for one in (first, second, third)], table.pull(ids).tolist()

    assert run(script, trainers=1) == [([[], [4], []], [[1, 1]] * 3)]


def test_in_a_loop_the_batch_goes_on_until_its_push_is_written(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (3,), "int64", combine="replace")
        refused = []
        for number in session.batches(torch.arange(4), 1, shuffle=False):
            found, versions = table.pull([1], versions=True)
            refused += table.push([1], found + 1, if_version=versions + 1).tolist()
            assert not len(table.push([1], found + 1, if_version=versions))
            if number == 3:
                with pytest.raises(UsageError, match="push: the batch is over"):
                    table.push([1], found, if_version=versions)
        return refused, table.pull().tolist()

    assert run(script, trainers=1) == [([1] * 4, [0, 4, 0])]


def test_in_the_block_of_a_lock_it_is_written_with_the_block(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        one = session.table("one", (3,), "int64")
        two = session.table("two", (3,), "int64", combine="replace")
        _, read = two.pull([0], versions=True)
        with one.lock([1]) as rows:
            rows.values += 5
            refused = two.push([0], [6], if_version=read)
        return refused.tolist(), one.pull().tolist(), two.pull().tolist()

    assert run(script, trainers=1) == [([], [0, 5, 0], [6, 0, 0])]


def test_a_version_is_of_the_values_and_of_nothing_else(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (None, 2), "float32", combine="replace")
        _, unseen = table.pull([5, 6, 5], versions=True)
        assert not len(table.push([5], [[1.0, 0.0]], if_version=unseen[:1]))
        _, seen = table.pull([5, 6], versions=True)
        assert not len(table.push([5], [[0.0, 0.0]], if_version=seen[:1]))
        _, again = table.pull([5], versions=True)
        return unseen.dtype.name, len({*unseen.tolist(), *again.tolist()}), len({*seen})

    assert run(script, trainers=1) == [("int64", 1, 2)]


def test_what_cannot_be_is_refused_by_name(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        adds = session.table("adds", (4,), "int64")
        table = session.table("t", (4,), "int64", combine="replace")
        rounds = session.table(
            "r", (4,), "int64", combine="replace", pace="sync:reduce=sum"
        )
        found, versions = table.pull([1, 2], versions=True)
        with pytest.raises(UsageError, match="'adds' has the rule 'add'"):
            adds.push([1, 2], found, if_version=versions)
        with pytest.raises(UsageError, match=r"if_version=\.\.\."):
            table.push([1, 2], found)
        with pytest.raises(UsageError, match=r"expected if_version as int64 \(2,\)"):
            table.push([1, 2], found, if_version=versions[:1])
        with pytest.raises(UsageError, match="float64"):
            table.push([1, 2], found, if_version=versions.astype(float))
        with pytest.raises(UsageError, match="each id of table 't' once"):
            table.push([1, 1], found, if_version=versions)
        with pytest.raises(UsageError, match="use async"):
            rounds.push([1, 2], found, if_version=versions)

    run(script, trainers=1)
