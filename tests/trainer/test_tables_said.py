"""What a script says of tables, in whatever way numpy says it, means what it says."""

from typing import Any

import numpy as np
import pytest

from paceline.config import Async, Constant, Highest, Lowest, Normal, Zeros
from paceline.errors import UsageError
from paceline.trainer.session import Session
from paceline.trainer.tables.arguments import describe_table
from tests.trainer.fake_job import FakeJob


@pytest.fixture
def job() -> FakeJob:
    return FakeJob(servers=2, pace=Async())


def test_a_shape_may_be_of_numpys_numbers() -> None:
    shape: Any = (np.int64(5), np.int32(3))
    spec, _ = describe_table("t", shape, "float32", "add", Zeros(), None)
    assert spec.dim == 3
    assert "shape=(3,), num_rows=5" in repr(spec.optimizer)


@pytest.mark.parametrize("shape", [7, None, "ab", (2.0, 3), ((2, 3),), (True,)])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(UsageError, match="shape: expected"):
        describe_table("t", shape, "float32", "add", Zeros(), None)


@pytest.mark.parametrize("blocks", [0, 4097, 2.0, True])
def test_blocks_are_no_more_than_a_request_can_name(blocks: Any) -> None:
    with pytest.raises(UsageError, match="blocks: expected 1 to 4096, got"):
        describe_table("t", (None,), "float32", "add", Zeros(), blocks)
    assert describe_table("t", (None,), "float32", "add", Zeros(), 4096)


@pytest.mark.parametrize("dtype", [">f4", "<f4", "f4", "float32"])
@pytest.mark.parametrize("given", [">f8", "<f4", ">i2"])
def test_values_begin_in_the_order_of_bytes_that_servers_know(
    dtype: str, given: str
) -> None:
    init = np.arange(6).reshape(3, 2).astype(given)
    spec, begins = describe_table("t", (3, 2), dtype, "add", init, None)
    assert begins is not None
    assert begins.dtype.isnative
    assert begins.tobytes() == np.arange(6, dtype=np.float32).tobytes()
    assert "dtype='float32'" in repr(spec.optimizer)


def test_an_id_beyond_int64_is_refused_not_folded(session: Session) -> None:
    table = session.table("t", (None,))
    assert table.pull(np.array([2**63 - 1], np.uint64)).tolist() == [0]
    with pytest.raises(UsageError, match="expected ids of int64, got 9223372036854775808"):
        table.pull(np.array([2**63], np.uint64))


@pytest.mark.parametrize(
    ("dtype", "values", "says"),
    [
        ("int8", 300, "holds int8, -128..127; got 300"),
        ("uint8", -1, "holds uint8, 0..255; got -1"),
        ("int64", np.array([2**63], np.uint64), "got 9223372036854775808"),
    ],
)
def test_values_that_do_not_fit_are_refused_not_folded(
    session: Session, dtype: str, values: Any, says: str
) -> None:
    table = session.table("t", (None,), dtype)
    with pytest.raises(UsageError, match=says):
        table.push([1], values)


def test_an_embedding_does_not_take_the_name_of_a_table(session: Session) -> None:
    session.table("t", (None,))
    with pytest.raises(UsageError, match="'t' is the name of a table; name the"):
        session.embedding("t", 4)


@pytest.mark.parametrize(
    ("rule", "begins"), [("add", Zeros()), ("max", Lowest()), ("min", Highest())]
)
def test_rows_begin_with_what_the_first_value_replaces(rule: str, begins: Any) -> None:
    assert describe_table("t", (None,), "int8", rule, None, None)[0].init == begins
    assert describe_table("t", (4,), "int8", rule, Zeros(), None)[0].init == Zeros()


@pytest.mark.parametrize(
    ("dtype", "init", "says"),
    [
        ("int8", Constant(128), "rows are of int8, which cannot hold 128"),
        ("uint8", Constant(-1), "cannot hold -1"),
        ("int64", Constant(0.5), r"cannot hold 0\.5"),
        ("float16", Constant(1e6), "rows are of float16"),
        ("int64", Normal(1.0), "draws floats"),
    ],
)
def test_a_beginning_that_rows_cannot_hold_is_refused(
    dtype: str, init: Any, says: str
) -> None:
    with pytest.raises(UsageError, match=f"table 't': init: .*{says}"):
        describe_table("t", (None,), dtype, "add", init, None)


def test_a_constant_is_finite() -> None:
    with pytest.raises(UsageError, match="Constant: value must be finite, got -inf"):
        Constant(float("-inf"))
