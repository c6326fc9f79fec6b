"""A table makes rows on first touch, steps as torch does, and survives a round trip."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.config import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    Normal,
    RowInit,
    RowOptimizer,
    RowWiseAdagrad,
    Uniform,
    Zeros,
)
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows.table import RowTable

OPTIMIZERS: list[RowOptimizer] = [
    SGD(lr=0.1),
    Adagrad(lr=0.1),
    Adagrad(lr=0.1, initial_accumulator=0.5, eps=1e-3),
]
ALL_OPTIMIZERS: list[RowOptimizer] = [
    *OPTIMIZERS,
    SGD(lr=0.1, momentum=0.9),
    RowWiseAdagrad(lr=0.1, initial_accumulator=0.5),
    Adam(lr=0.1),
    FTRL(lr=0.1, l1=0.1),
]
INITS: list[RowInit] = [Zeros(), Uniform(0.5), Normal(0.5)]


def _table(
    optimizer: RowOptimizer = OPTIMIZERS[1],
    init: RowInit = INITS[1],
    *,
    name: str = "user",
    seed: int = 0,
) -> RowTable:
    return RowTable(TableSpec(name, 5, optimizer, init), seed)


def _ids(*ids: int) -> NDArray[np.int64]:
    return np.array(ids, np.int64)


def _gradients(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


@pytest.mark.parametrize("init", INITS)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations([3, -1, 2**63 - 1, -(2**63), 0, 17]))
def test_a_new_row_does_not_depend_on_the_order_of_touches(
    init: RowInit, order: list[int]
) -> None:
    alone = {id_: _table(init=init).gather(_ids(id_), create=True) for id_ in order}
    table = _table(init=init)
    for id_ in order:
        np.testing.assert_array_equal(table.gather(_ids(id_), create=True), alone[id_])


@pytest.mark.parametrize("init", INITS[1:])
def test_new_rows_differ_by_seed_table_and_id(init: RowInit) -> None:
    rows = [
        _table(init=init).gather(_ids(1, 2), create=True),
        _table(init=init, seed=1).gather(_ids(1, 2), create=True),
        _table(init=init, name="item").gather(_ids(1, 2), create=True),
    ]
    assert len(np.unique(np.concatenate(rows))) == 30


def test_uniform_rows_fill_their_range_and_normal_ones_have_their_deviation() -> None:
    ids = np.arange(4000)
    uniform = _table(init=Uniform(0.5)).gather(ids, create=False)
    assert -0.5 <= uniform.min() < -0.499
    assert 0.499 < uniform.max() < 0.5
    assert abs(uniform.mean()) < 0.01
    normal = _table(init=Normal(0.5)).gather(ids, create=False)
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 0.5) < 0.01
    assert (_table(init=Zeros()).gather(ids, create=False) == 0).all()


@pytest.mark.parametrize("init", INITS)
def test_reading_an_unseen_id_makes_no_row_and_reads_what_would_be_made(
    init: RowInit,
) -> None:
    table = _table(init=init)
    table.gather(_ids(4), create=True)
    read = table.gather(_ids(9, 4, 9), create=False)
    assert len(table) == 1
    np.testing.assert_array_equal(read, table.gather(_ids(9, 4, 9), create=True))
    assert len(table) == 2


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_equal_a_sparse_embedding_of_torch(optimizer: RowOptimizer) -> None:
    table = _table(optimizer)
    embedding = torch.nn.Embedding(50, 5, sparse=True)
    embedding.weight.data = torch.from_numpy(table.gather(np.arange(50), create=True))
    twin: torch.optim.Optimizer
    if isinstance(optimizer, SGD):
        twin = torch.optim.SGD(embedding.parameters(), lr=optimizer.lr)
    else:
        twin = torch.optim.Adagrad(
            embedding.parameters(),
            lr=optimizer.lr,
            initial_accumulator_value=optimizer.initial_accumulator,
            eps=optimizer.eps,
        )
    random = np.random.default_rng(1)
    for step in range(6):
        ids, gradients = random.permutation(50)[:20], _gradients(20, step)
        twin.zero_grad()
        embedding(torch.from_numpy(ids)).backward(torch.from_numpy(gradients))
        twin.step()
        table.apply(ids, gradients)
    expected = embedding.weight.detach().numpy()
    error = np.linalg.norm(table.gather(np.arange(50), create=False) - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


def test_applying_to_an_unseen_id_makes_its_row_first() -> None:
    pushed, pulled = _table(), _table()
    pulled.gather(_ids(8), create=True)
    for table in (pushed, pulled):
        table.apply(_ids(8), _gradients(1))
    assert len(pushed) == 1
    np.testing.assert_array_equal(
        pushed.gather(_ids(8), create=False), pulled.gather(_ids(8), create=False)
    )


def test_rows_that_are_not_named_are_not_touched() -> None:
    table = _table()
    before = table.gather(_ids(1, 2), create=True)
    table.apply(_ids(1), _gradients(1))
    after = table.gather(_ids(1, 2), create=False)
    assert not np.array_equal(after[0], before[0])
    np.testing.assert_array_equal(after[1], before[1])


def test_rows_survive_growth() -> None:
    table, ids = _table(), np.arange(1000) * 7919 - 3_000_000
    expected = table.gather(ids, create=False)
    for part in np.array_split(ids, 9):
        table.gather(part, create=True)
    assert len(table) == 1000
    np.testing.assert_array_equal(table.gather(ids, create=False), expected)


@pytest.mark.parametrize("optimizer", ALL_OPTIMIZERS)
def test_a_row_does_not_depend_on_when_its_table_grew(optimizer: RowOptimizer) -> None:
    small, grown = _table(optimizer), _table(optimizer)
    for turn in range(3):
        gradients = _gradients(101, seed=turn)
        small.apply(_ids(5), gradients[:1])
        grown.apply(_ids(5, *range(turn * 100 + 10, turn * 100 + 110)), gradients)
    columns, others = small.export(), grown.export()
    assert others["ids"][0] == 5
    for name, array in columns.items():
        np.testing.assert_array_equal(array[0], others[name][0])


@pytest.mark.parametrize("optimizer", ALL_OPTIMIZERS)
def test_a_loaded_table_goes_on_identically(optimizer: RowOptimizer) -> None:
    first, second = _table(optimizer), _table(optimizer)
    first.apply(_ids(5, -7, 9), _gradients(3))
    second.apply(_ids(1), _gradients(1))
    exported = first.export()
    assert exported["ids"].tolist() == [5, -7, 9]
    second.load(exported)
    for table in (first, second):
        table.apply(_ids(9, 2), _gradients(2, seed=1))
    for name, array in first.export().items():
        np.testing.assert_array_equal(second.export()[name], array)


def test_an_export_does_not_change_with_the_table() -> None:
    table = _table()
    table.apply(_ids(5), _gradients(1))
    exported = table.export()
    before = {name: array.copy() for name, array in exported.items()}
    table.apply(_ids(5), _gradients(1))
    for name, array in before.items():
        np.testing.assert_array_equal(exported[name], array)


def test_an_empty_table_and_no_ids_are_fine() -> None:
    table = _table()
    assert table.gather(_ids(), create=True).shape == (0, 5)
    table.apply(_ids(), _gradients(0))
    loaded = _table()
    loaded.load(table.export())
    assert len(loaded) == 0
    assert loaded.gather(_ids(1), create=True).shape == (1, 5)


def test_arrays_of_another_optimizer_or_shape_are_refused_and_change_nothing() -> None:
    table = _table(Adagrad())
    table.apply(_ids(5), _gradients(1))
    exported = table.export()
    with pytest.raises(UsageError, match=r"expected the arrays .*sums.*row optimizer"):
        table.load(_table(SGD(lr=0.1)).export())
    with pytest.raises(UsageError, match=r"values of shape \(1, 5\), got \(1, 4\)"):
        table.load({**exported, "values": exported["values"][:, :4]})
    with pytest.raises(UsageError, match=r"sums of shape \(1, 5\), got \(1, 1\)"):
        table.load({**exported, "sums": exported["sums"][:, :1]})
    twice = {name: np.concatenate([a, a]) for name, a in exported.items()}
    with pytest.raises(UsageError, match=r"1 of 2 ids .* repeated"):
        table.load(twice)
    np.testing.assert_array_equal(table.export()["values"], exported["values"])


def test_what_tables_held_before_there_were_other_optimizers_still_loads() -> None:
    ids, values, sums = _ids(5, -7), _gradients(2), np.square(_gradients(2, seed=1))
    for optimizer, state in [(SGD(lr=0.1), {}), (Adagrad(), {"sums": sums})]:
        table = _table(optimizer)
        table.load({"ids": ids, "values": values, **state})
        np.testing.assert_array_equal(table.gather(ids, create=False), values)
        assert table.export().keys() == {"ids", "values", *state}


def test_gradients_of_another_width_are_refused_and_make_no_row() -> None:
    table = _table()
    with pytest.raises(UsageError, match=r"'user': expected gradients of shape \(1, 5\)"):
        table.apply(_ids(1), np.zeros((1, 4), np.float32))
    assert len(table) == 0
