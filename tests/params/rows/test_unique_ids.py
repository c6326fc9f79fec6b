"""Ids are made unique and summed the same way every time."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.params.rows.distinct import sum_duplicates, unique_ids

id_arrays = st.lists(
    st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), max_size=60
).map(lambda ids: np.array(ids, np.int64))
# A loaded machine is slow to draw and to run examples; neither is a failure.
on_any_machine = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)


@on_any_machine
@given(id_arrays)
def test_unique_ids_come_in_first_seen_order_and_give_the_ids_back(
    ids: NDArray[np.int64],
) -> None:
    unique, inverse = unique_ids(ids)
    assert unique.tolist() == list(dict.fromkeys(ids.tolist()))
    np.testing.assert_array_equal(unique[inverse], ids)


def test_no_ids_make_no_sums() -> None:
    none = np.empty(0, np.int64)
    assert sum_duplicates(none, np.empty((0, 4), np.float32), 0).shape == (0, 4)


def test_gradients_of_equal_ids_are_summed() -> None:
    _, inverse = unique_ids(np.array([7, 3, 7]))
    gradients = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    assert sum_duplicates(inverse, gradients, 2).tolist() == [[6, 8], [3, 4]]
