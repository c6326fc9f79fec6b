"""A table of the user's own in a slot is a dictionary of rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Combine, Constant, Highest, Lowest, Uniform, Zeros
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows.combining import combine_equal
from paceline.params.rows.values import ValueTable

DIM, ROWS = 2, 12
ids = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=8)
dtypes = st.sampled_from(["int8", "int64", "float32", "float64", "uint8"])
rules = st.sampled_from(["add", "max", "min"])
RULES: Mapping[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def spec(dtype: str, rule: str, rows: int | None, init: Any = None) -> TableSpec:
    combine = Combine(rule=rule, dtype=dtype, shape=(DIM,), num_rows=rows)
    return TableSpec("t", DIM, combine, init or Zeros())


def drawn(count: int, dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, (count, DIM)).astype(dtype)


@given(pushes=st.lists(ids, max_size=5), dtype=dtypes, rule=rules, replaces=st.booleans())
def test_a_keyed_table_is_a_dictionary(
    pushes: list[list[int]], dtype: str, rule: str, replaces: bool
) -> None:
    table = ValueTable(spec(dtype, rule, None), 7, 0, 4)
    known: dict[int, np.ndarray] = {}
    for seed, pushed in enumerate(pushes):
        unique = np.array(list(dict.fromkeys(pushed)), np.int64)
        values = drawn(len(unique), dtype, seed)
        table.apply(unique, values, replaces=replaces)
        for at, value in zip(unique.tolist(), values, strict=True):
            before = known.get(at, np.zeros(DIM, dtype))
            known[at] = value if replaces else RULES[rule](before, value)
    asked = np.array([*known, 77, *known], np.int64)
    wanted = [known.get(int(at), np.zeros(DIM, dtype)) for at in asked]
    assert len(table) == len(known)
    assert (table.gather(asked, True) == np.array(wanted, dtype)).all()
    again = ValueTable(spec(dtype, rule, None), 7, 0, 4)
    again.load(table.export())
    assert (again.gather(asked, False) == np.array(wanted, dtype)).all()


@given(blocks=st.integers(1, ROWS), dtype=dtypes, rule=rules)
def test_blocks_of_a_dense_table_are_all_its_rows(
    blocks: int, dtype: str, rule: str
) -> None:
    whole = drawn(ROWS, dtype, 1)
    found = []
    for block in range(blocks):
        table = ValueTable(spec(dtype, rule, ROWS), 7, block, blocks)
        start, stop = spec(dtype, rule, ROWS).optimizer.bounds(block, blocks)
        here = np.arange(start, stop)
        table.apply(here, whole[start:stop], replaces=True)
        table.apply(here[::-1].copy(), whole[start:stop])
        exported = table.export()
        assert (exported["ids"] == here).all()
        found.append(exported["values"])
    table = ValueTable(spec(dtype, rule, ROWS), 7, 0, 1)
    for start, values in zip(
        [spec(dtype, rule, ROWS).optimizer.bounds(b, blocks)[0] for b in range(blocks)],
        found,
        strict=True,
    ):
        reverse = whole[start : start + len(values)][::-1]
        original = whole[start : start + len(values)]
        assert (values == RULES[rule](original, reverse)).all()
    assert sum(map(len, found)) == ROWS


@given(given_ids=ids, dtype=dtypes, rule=st.sampled_from(["add", "max", "min", "replace"]))
def test_values_of_equal_ids_come_together_in_their_order(
    given_ids: list[int], dtype: str, rule: str
) -> None:
    values = drawn(len(given_ids), dtype, 3)
    unique, inverse = np.unique(np.array(given_ids, np.int64), return_inverse=True)
    found = combine_equal(rule, inverse, values, len(unique))
    assert found.dtype == dtype
    for at, one in enumerate(unique):
        own = values[[i for i, other in enumerate(given_ids) if other == one]]
        wanted = own[-1] if rule == "replace" else RULES[rule].reduce(own, dtype=dtype)
        assert (found[at] == wanted).all()


def test_an_unseen_row_reads_as_it_will_begin() -> None:
    table = ValueTable(spec("float64", "add", None, Uniform(0.5)), 7, 0, 4)
    asked = np.array([3, -8], np.int64)
    before = table.gather(asked, True)
    assert len(table) == 0
    table.apply(asked, np.zeros((2, DIM)))
    assert (table.gather(asked, False) == before).all()
    assert 0 < abs(before).max() <= 0.5


def test_a_snapshot_is_of_its_moment() -> None:
    table = ValueTable(spec("int64", "add", None), 7, 0, 4)
    table.apply(np.arange(5), np.ones((5, DIM), np.int64))
    snapshot = table.snapshot()
    table.apply(np.arange(3, 9), np.full((6, DIM), 10, np.int64))
    assert snapshot.copy_some(10)
    arrays = snapshot.arrays()
    table.release()
    assert arrays["ids"].tolist() == [0, 1, 2, 3, 4]
    assert (arrays["values"] == 1).all()
    assert table.gather(np.arange(9), False)[:, 0].tolist() == [1, 1, 1, 11, 11, *[10] * 4]


def test_a_snapshot_does_not_see_what_is_uploaded_behind_it() -> None:
    table = ValueTable(spec("int64", "add", ROWS), 7, 0, 4)
    snapshot = table.snapshot()
    table.upload(np.ones((len(table), DIM), np.int64))
    assert snapshot.copy_some(10)
    assert (snapshot.arrays()["values"] == 0).all()
    table.release()
    assert (table.export()["values"] == 1).all()


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"ids": np.arange(2)}, "expected the arrays"),
        ({"ids": np.arange(2), "values": np.zeros((3, DIM))}, "shape"),
        ({"ids": np.arange(2), "values": np.zeros((2, DIM), "float32")}, "float64"),
        ({"ids": np.array([1, 1]), "values": np.zeros((2, DIM))}, "repeated"),
    ],
)
def test_what_is_no_export_is_refused(arrays: dict[str, np.ndarray], says: str) -> None:
    table = ValueTable(spec("float64", "add", None), 7, 0, 4)
    with pytest.raises(UsageError, match=says):
        table.load(arrays)
    dense = ValueTable(spec("float64", "add", ROWS), 7, 1, 4)
    with pytest.raises(UsageError, match="expected"):
        dense.load({"ids": np.arange(3), "values": np.zeros((3, DIM))})


@pytest.mark.parametrize("rows", [ROWS, None], ids=["dense", "keyed"])
@pytest.mark.parametrize(
    ("dtype", "init", "begins"),
    [
        ("int64", Lowest(), -(2**63)),
        ("int64", Highest(), 2**63 - 1),
        ("uint8", Lowest(), 0),
        ("int8", Highest(), 127),
        ("float16", Lowest(), -np.inf),
        ("float64", Highest(), np.inf),
        ("int64", Constant(2**53 + 1), 2**53 + 1),
        ("float64", Constant(0.1), 0.1),
    ],
)
def test_rows_begin_as_their_dtype_holds_it(
    dtype: str, init: Any, begins: float, rows: int | None
) -> None:
    table = ValueTable(spec(dtype, "max", rows, init), 7, 0, 1)
    table.apply(np.array([3], np.int64), np.zeros((1, DIM), dtype), replaces=True)
    found = table.gather(np.array([2, 3, 9], np.int64), False)
    assert (found == np.array([[begins] * DIM, [0] * DIM, [begins] * DIM], dtype)).all()
