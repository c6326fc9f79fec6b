"""Tables of the user's own: what all trainers push is there, each value exactly once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline import Async, Sync, UsageError

IDS, RECORDS, BATCH = 40, 203, 7
PACES = [Async(), Async(push_every=3), paceline.SSP(2), Sync(reduce="sum")]
Run = Callable[..., list[Any]]


def records() -> np.ndarray:
    return np.random.default_rng(1).integers(0, IDS, RECORDS)


def batches(session: paceline.Session, epochs: int = 1) -> Any:
    return session.batches(torch.from_numpy(records()), BATCH, epochs=epochs, task_size=14)


@pytest.mark.parametrize("pace", PACES, ids=str)
@pytest.mark.parametrize("rows", [IDS, None], ids=["dense", "keyed"])
@pytest.mark.parametrize("dtype", ["int64", "float32", "int8"])
def test_every_record_counts_once(
    run: Run, pace: Any, rows: int | None, dtype: str
) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("count", (rows, 2), dtype, pace=pace)
        for ids in batches(session, epochs=2):
            table.push(ids, np.ones((len(ids), 2), dtype))
        return table.pull(np.arange(IDS))

    wanted = 2 * np.bincount(records(), minlength=IDS)
    for found in run(script):
        assert found.dtype == dtype
        assert (found == wanted[:, None]).all()


@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("rows", [9, None], ids=["dense", "keyed"])
def test_the_first_value_is_the_greatest_and_the_least(
    run: Run, rows: int | None, rule: str, dtype: str
) -> None:
    sign = -1 if rule == "max" else 1

    def script(session: paceline.Session) -> Any:
        table = session.table("m", (rows,), dtype, combine=rule)
        five = session.table(
            "five", (rows,), dtype, combine=rule, init=paceline.Constant(5)
        )
        for number in session.batches(torch.arange(20), 5):
            table.push(number % 2, sign * (1 + number))
            five.push(number % 2, sign * number)
        return table.pull([0, 1, 8]).tolist(), five.pull([0, 1, 8]).tolist()

    ends = np.array([-np.inf, np.inf] if dtype == "float32" else [-(2**63), 2**63 - 1])
    unseen = ends.astype(dtype)[0 if rule == "max" else 1]
    for found, least in run(script):
        assert found == [sign, 2 * sign, unseen]
        assert least == ([0, 1, 5] if rule == "min" else [5, 5, 5])


@pytest.mark.parametrize("rule", ["max", "min"])
def test_the_greatest_and_the_least_of_all_trainers_stay(run: Run, rule: str) -> None:
    values = np.random.default_rng(2).normal(size=RECORDS)

    def script(session: paceline.Session) -> Any:
        worst = -np.inf if rule == "max" else np.inf
        table = session.table("m", (3,), "float64", combine=rule, init=np.full(3, worst))
        data = (torch.from_numpy(records()), torch.from_numpy(values))
        for ids, drawn in session.batches(data, BATCH):
            table.push(ids % 3, drawn)
        return table.pull()

    best = {"max": max, "min": min}[rule]
    wanted = [best(values[records() % 3 == row]) for row in range(3)]
    for found in run(script):
        assert found.tolist() == wanted


def test_a_pace_may_be_said_by_its_text(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        with pytest.raises(UsageError, match="'often' is not one of"):
            session.table("t", (1,), "int64", pace="often")
        table = session.table("t", (1,), "int64", pace="sync:reduce=sum")
        for ids in batches(session):
            table.push([0], [len(ids)])
        return table.pull().tolist()

    assert run(script) == [[RECORDS]] * 3


def test_a_batch_reads_what_it_has_written(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("own", (None,), "int32")
        for batch in batches(session):
            mine = np.arange(len(batch)) + 10**6 * (1 + int(session.epoch)) + int(batch[0])
            before = table.pull(mine)
            table.push(mine[::-1], 5)
            table.push(mine, np.full(len(mine), 2))
            assert (table.pull([*mine, *mine]) == [*(before + 7), *(before + 7)]).all()

    run(script, trainers=1)


def test_a_batch_that_pushes_no_rows_counts(run: Run) -> None:
    nobody = np.empty(0, np.int64)

    def script(session: paceline.Session) -> Any:
        table = session.table("count", (IDS, 2))
        for _ in batches(session):
            assert table.pull(nobody).shape == (0, 2)
            table.push(nobody, np.empty((0, 2)))
        return session.records

    assert run(script) == [RECORDS] * 3


def test_in_an_epoch_all_of_the_epoch_before_is_there(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("sums", (None,), "int64")
        for ids in batches(session, epochs=4):
            if session.epoch:
                assert table.pull([session.epoch - 1]) == records().sum()
            table.push([session.epoch], [int(ids.sum())])

    run(script)


def test_the_values_of_the_first_trainer_are_those_of_all(run: Run) -> None:
    begins = np.random.default_rng(3).normal(size=(37, 2, 3)).astype(np.float32)

    def script(session: paceline.Session) -> Any:
        return session.table("w", (37, 2, 3), init=begins).pull()

    for found in run(script):
        assert (found == begins).all()


def test_rows_begin_as_seed_name_and_id_say(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        keyed = session.table("k", (None, 4), init=paceline.Uniform(0.5))
        seen = keyed.pull([-5, 3, 2**62])
        for ids in batches(session):
            keyed.push(ids, np.zeros(4, np.float32))
        assert (keyed.pull([-5, 3, 2**62]) == seen).all()
        return seen

    first, *others = run(script)
    assert abs(first).max() <= 0.5
    assert len(np.unique(first)) == first.size
    assert all((other == first).all() for other in others)


def test_outside_of_a_loop_a_push_is_there_at_once(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (4,), "int64", pace=Sync(reduce="sum"))
        table.push([1, 1, 3], [1, 2, 4])
        assert table.pull().tolist() == [0, 3, 0, 4]
        for _ in batches(session):
            table.push([0], [1])
        return table.pull().tolist()

    [found] = run(script, trainers=1)
    assert found == [-(-RECORDS // BATCH), 3, 0, 4]


def test_a_batch_that_was_flushed_counts_when_the_loop_is_left(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (2,), "int64")
        for _ in batches(session):
            table.push([0], [1])
            if table.pull([0])[0] == 3:
                table.flush()
                with pytest.raises(UsageError, match="the batch is over"):
                    table.push([1], [1])
                break
        return table.pull().tolist(), session.records

    assert run(script, trainers=1) == [([3, 0], 3 * BATCH)]


def test_what_a_batch_that_is_left_has_pushed_goes_with_it(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (1,), "int64")
        for _ in batches(session):
            table.push([0], [1])
            if table.pull([0])[0] == 3:
                break
        return table.pull().tolist()

    assert run(script, trainers=1) == [[2]]


def test_a_model_and_tables_go_through_the_same_batches(run: Run) -> None:
    def script(session: paceline.Session) -> Any:
        model = torch.nn.Linear(1, 1)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        counts = session.table("count", (IDS,), "int64")
        for ids in batches(session):
            model(ids[:, None].float()).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            counts.push(ids, 1)
        return counts.pull().tolist()

    wanted = np.bincount(records(), minlength=IDS).tolist()
    assert run(script) == [wanted] * 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pace": Sync()}, "reduce=sum"),
        ({"pace": paceline.LocalSGD(4)}, "no"),
        ({"pace": Async(pull_every=2)}, "pull"),
        ({"combine": "sum"}, "add, max, min, replace"),
        ({"dtype": "complex64"}, "dtype"),
        ({"dtype": "int32", "init": paceline.Uniform(1.0)}, "floats"),
        ({"shape": ()}, "shape"),
        ({"shape": (0, 2)}, "1 row or more"),
        ({"shape": (3, 2), "blocks": 4}, "no more than the 3 rows"),
        ({"init": np.zeros((3, 3))}, "expected values"),
    ],
)
def test_what_cannot_be_a_table_is_refused(
    run: Run, arguments: dict[str, Any], says: str
) -> None:
    def script(session: paceline.Session) -> None:
        shape = arguments.pop("shape", (3, 2))
        with pytest.raises(UsageError, match=says):
            session.table("t", shape, **arguments)

    run(script, trainers=1)


@pytest.mark.parametrize(
    ("ids", "values", "says"),
    [
        ([3], 1.0, "rows 0..2, got 3"),
        ([-1], 1.0, "got -1"),
        ([0.5], 1.0, "whole numbers"),
        ([0], [1.0, 2.0, 3.0], "expected values"),
        ([0, 1], np.zeros((3, 2)), "expected values"),
        ([0], 1j, "convert"),
    ],
)
def test_what_does_not_fit_a_table_is_refused(
    run: Run, ids: Any, values: Any, says: str
) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("t", (3, 2))
        with pytest.raises(UsageError, match=says):
            table.push(ids, values if np.ndim(values) else np.full(2, values))

    run(script, trainers=1)


def test_rows_are_replaced_only_by_who_has_a_right_to_them(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("t", (3, 2), combine="replace")
        with pytest.raises(UsageError, match="lock"):
            table.push([0], np.ones(2))

    run(script, trainers=1)
