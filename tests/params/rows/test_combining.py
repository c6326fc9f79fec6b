"""Rows that follow each other are combined in place, to the same bits as any others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.params.rows.combining import combine_rows, span_of


@given(st.integers(0, 20), st.integers(1, 9))
def test_rows_that_follow_each_other_are_a_span(start: int, count: int) -> None:
    rows = np.arange(start, start + count)
    assert span_of(rows) == slice(start, start + count)
    if count > 2:
        assert span_of(rows[::-1].copy()) is None
        assert span_of(np.delete(rows, 1)) is None
        rows[[0, 1]] = rows[[1, 0]]
        assert span_of(rows) is None


def test_no_rows_are_no_span() -> None:
    assert span_of(np.empty(0, np.int64)) is None


@pytest.mark.parametrize("rule", ["add", "max", "min", "replace"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_one_after_the_other_is_the_same_as_in_place(rule: str, dtype: str) -> None:
    draw = np.random.default_rng(0)
    before = draw.integers(-100, 100, (9, 3)).astype(dtype)
    values = draw.integers(-100, 100, (5, 3)).astype(dtype)
    whole, single = before.copy(), before.copy()
    combine_rows(rule, whole, np.arange(2, 7), values)
    for row, value in zip(range(6, 1, -1), values[::-1], strict=True):
        combine_rows(rule, single, np.array([row]), value[None])
    shuffled = before.copy()
    order = draw.permutation(5)
    combine_rows(rule, shuffled, np.arange(2, 7)[order], values[order])
    assert whole.tobytes() == single.tobytes() == shuffled.tobytes()
