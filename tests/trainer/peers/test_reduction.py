"""One order of reduction, so one result, whatever travels in which hops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.trainer.peers.reduction import reduce_in_order, slice_bounds, takes_two_hops


def test_values_are_added_in_their_order() -> None:
    values = [np.array([x]) for x in (1e16, 1.0, -1e16)]
    assert reduce_in_order("add", values)[0] == (1e16 + 1.0) - 1e16
    assert values[0][0] == 1e16


@pytest.mark.parametrize(("rule", "expected"), [("max", [3, 5]), ("min", [1, 2])])
def test_rules_other_than_add(rule: str, expected: list[int]) -> None:
    found = reduce_in_order(rule, [np.array([1, 5]), np.array([3, 2])])
    np.testing.assert_array_equal(found, expected)


@given(st.integers(0, 50), st.integers(1, 9))
def test_slices_cover_everything_once(num: int, count: int) -> None:
    bounds = [slice_bounds(num, index, count) for index in range(count)]
    assert [i for start, stop in bounds for i in range(start, stop)] == list(range(num))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9), st.integers(1, 5))
def test_reduced_slices_are_slices_of_the_reduced(values: list[float], count: int) -> None:
    arrays = [np.array(values) * 10.0**shift for shift in range(-2, 3)]
    whole = reduce_in_order("add", arrays)
    pieces = []
    for index in range(count):
        start, stop = slice_bounds(len(values), index, count)
        pieces.append(reduce_in_order("add", [array[start:stop] for array in arrays]))
    assert np.concatenate(pieces).tobytes() == whole.tobytes()


def test_two_hops_are_for_large_values_of_more_than_two() -> None:
    assert not takes_two_hops("auto", 1 << 30, 2)
    assert not takes_two_hops("auto", 100, 9)
    assert takes_two_hops("auto", 1 << 20, 3)
    assert takes_two_hops("regroup+allgather", 1, 2)
    assert not takes_two_hops("allreduce", 1 << 30, 9)
