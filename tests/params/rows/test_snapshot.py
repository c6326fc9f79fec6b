"""A snapshot is the moment it was taken at, whatever is pushed meanwhile."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.config import SGD, Adagrad, Adam, Uniform
from paceline.messages.shared import TableSpec
from paceline.params.rows.snapshot import PAGE_ROWS, RowSnapshot
from paceline.params.rows.table import RowTable

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 2**32), st.integers(1, 300)),
        st.tuples(st.just("make"), st.integers(0, 2**32), st.integers(1, 9_000)),
        st.tuples(st.just("read"), st.integers(0, 2**32), st.integers(1, 300)),
        st.tuples(st.just("copy"), st.integers(1, 2), st.just(0)),
    ),
    max_size=12,
)


def act(table: RowTable, snapshot: RowSnapshot, action: tuple[str, int, int]) -> None:
    kind, seed, count = action
    if kind == "copy":
        snapshot.copy_some(seed)
        return
    random = np.random.default_rng(seed)
    ids = np.unique(random.integers(0, 30_000, count))
    if kind == "push":
        table.apply(ids, random.normal(size=(len(ids), 2)).astype(np.float32))
    else:
        table.gather(ids, create=kind == "make")


@settings(max_examples=40)
@given(
    rows=st.sampled_from(
        [0, 1, PAGE_ROWS - 1, PAGE_ROWS, PAGE_ROWS + 1, 3 * PAGE_ROWS + 7]
    ),
    optimizer=st.sampled_from([SGD(lr=0.1), Adagrad(), Adam()]),
    actions=ACTIONS,
)
def test_a_snapshot_equals_a_deep_copy_of_its_moment(
    rows: int, optimizer: SGD | Adagrad | Adam, actions: list[tuple[str, int, int]]
) -> None:
    table = RowTable(TableSpec("user", 2, optimizer, Uniform(0.1)), seed=3)
    ids = np.arange(rows, dtype=np.int64)
    table.apply(ids, np.ones((rows, 2), np.float32))
    twin = copy.deepcopy(table)
    moment, snapshot = twin.export(), table.snapshot()
    for action in actions:
        act(table, snapshot, action)
        act(twin, RowSnapshot(np.empty(0, np.int64), {}), action)
    while not snapshot.copy_some(1):
        pass
    arrays = snapshot.arrays()
    assert arrays.keys() == moment.keys()
    for name, array in moment.items():
        assert array.tobytes() == arrays[name].tobytes(), name
    table.release()
    live, expected = table.export(), twin.export()
    for name, array in expected.items():
        assert array.tobytes() == live[name].tobytes(), f"live {name}"


def num_kept(snapshot: RowSnapshot) -> int:
    """Rows that were copied because they were about to change."""
    return sum(len(rows) for rows, _ in snapshot._kept)


def test_a_push_copies_only_the_rows_that_it_changes() -> None:
    table = RowTable(TableSpec("user", 2, SGD(lr=1.0), Uniform(0.1)), seed=3)
    table.gather(np.arange(4 * PAGE_ROWS), create=True)
    snapshot = table.snapshot()
    for _ in range(2):
        table.apply(np.array([PAGE_ROWS + 5, 7]), np.ones((2, 2), np.float32))
        assert num_kept(snapshot) == 2
    assert not snapshot.copy_some(3)
    table.apply(np.array([8]), np.ones((1, 2), np.float32))
    assert num_kept(snapshot) == 2, "its page is copied"
    assert snapshot.copy_some(1)


def test_one_snapshot_is_live_at_a_time() -> None:
    table = RowTable(TableSpec("user", 2, SGD(lr=1.0), Uniform(0.1)), seed=3)
    table.snapshot()
    with pytest.raises(AssertionError, match="live snapshot"):
        table.snapshot()
    table.release()
    table.snapshot()


def test_a_table_that_is_loaded_anew_leaves_the_moment_alone() -> None:
    table = RowTable(TableSpec("user", 2, SGD(lr=1.0), Uniform(0.1)), seed=3)
    table.gather(np.arange(10), create=True)
    moment, snapshot = table.export(), table.snapshot()
    table.load({"ids": np.arange(3), "values": np.zeros((3, 2), np.float32)})
    table.apply(np.arange(3), np.ones((3, 2), np.float32))
    assert snapshot.copy_some(9)
    assert snapshot.arrays()["values"].tobytes() == moment["values"].tobytes()
