"""The lazy twin of an optimizer of torch, and what has none."""

import msgspec
import numpy as np
import pytest
import torch

from paceline.config import SGD, Adagrad, Adam, AdamW, FirstAdam, RowOptimizer, Zeros
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows.following import RowStep, twin_by_now, twin_of
from paceline.params.rows.table import RowTable
from paceline.trainer.tensors.payload import hyper_of


@pytest.mark.parametrize(
    ("optimizer", "twin"),
    [
        (
            torch.optim.SGD([{"params": []}], lr=0.2, momentum=0.9, nesterov=True),
            SGD(lr=0.2, momentum=0.9, nesterov=True),
        ),
        (
            torch.optim.Adagrad([{"params": []}], lr=0.2, weight_decay=0.1, eps=1e-6),
            Adagrad(lr=0.2, eps=1e-6, weight_decay=0.1),
        ),
        (
            torch.optim.Adam([{"params": []}], lr=0.2, betas=(0.5, 0.6), weight_decay=0.1),
            Adam(lr=0.2, betas=(0.5, 0.6), weight_decay=0.1),
        ),
        (torch.optim.AdamW([{"params": []}], lr=0.2), AdamW(lr=0.2, weight_decay=0.01)),
        (torch.optim.SparseAdam([{"params": []}], lr=0.2), Adam(lr=0.2)),
    ],
)
def test_twins_have_the_numbers_of_torch(
    optimizer: torch.optim.Optimizer, twin: RowOptimizer
) -> None:
    [hyper] = hyper_of(optimizer.param_groups)
    assert twin_of(type(optimizer).__name__, hyper) == twin


def test_what_rows_have_no_state_for_is_refused() -> None:
    begun = SGD(lr=0.1)
    assert twin_by_now("SGD", {"lr": 0.3}, begun) == SGD(lr=0.3)
    with pytest.raises(UsageError, match="began without momentum"):
        twin_by_now("SGD", {"lr": 0.3, "momentum": 0.9}, begun)


def test_what_equals_a_number_and_is_none_is_refused_behind_it() -> None:
    begun = twin_by_now("SGD", {"lr": 1.0}, SGD(lr=0.1))
    assert begun == SGD(lr=1.0)
    with pytest.raises(UsageError, match="expected lr to be a number, got True"):
        twin_by_now("SGD", {"lr": True}, SGD(lr=0.1))


def test_a_rate_is_for_those_that_do_not_follow() -> None:
    how = RowStep(0.5, {"a": SGD(lr=0.1)})
    assert how.of("a") == (1.0, SGD(lr=0.1))
    assert how.of("b") == (0.5, None)


def test_a_table_counts_steps_that_have_no_row_of_it() -> None:
    ids, one = np.arange(1), np.ones((1, 2), np.float32)
    none = (np.empty(0, np.int64), np.empty((0, 2), np.float32))
    tables = [RowTable(TableSpec("t", 2, Adam(lr=0.1), Zeros()), 0) for _ in range(2)]
    for table in tables:
        table.apply(ids, one)
        table.apply(*none)
        table.apply(ids, 2 * one)
    assert tables[0].export()["table_steps"] == [3]
    snapshot = tables[0].snapshot()
    tables[0].apply(ids, one)
    while not snapshot.copy_some(1):
        pass
    again = RowTable(TableSpec("t", 2, Adam(lr=0.1), Zeros()), 0)
    again.load(snapshot.arrays())
    tables[1].apply(ids, one)
    again.apply(ids, one)
    np.testing.assert_array_equal(again.gather(ids, False), tables[1].gather(ids, False))
    np.testing.assert_array_equal(again.gather(ids, False), tables[0].gather(ids, False))


def test_a_cut_without_the_count_is_refused() -> None:
    table = RowTable(TableSpec("t", 2, Adam(lr=0.1), Zeros()), 0)
    arrays = table.export()
    del arrays["table_steps"]
    with pytest.raises(UsageError, match="load it with the row optimizer"):
        table.load(arrays)


def test_what_was_written_before_is_read_as_it_was() -> None:
    old = b'{"type":"adam","lr":0.01,"betas":[0.9,0.999],"eps":1e-08}'
    read = msgspec.json.decode(old, type=RowOptimizer)
    assert read == FirstAdam(lr=0.01)
    assert FirstAdam(lr=0.01).today() == Adam(lr=0.01, steps="row")
    table = b'{"name":"t","dim":2,"optimizer":{"type":"sgd","lr":1.0,"momentum":0.5},'
    read = msgspec.json.decode(table + b'"init":{"type":"zeros"}}', type=TableSpec)
    assert read == TableSpec("t", 2, SGD(lr=1.0, momentum=0.5), Zeros())
    assert not read.follows
