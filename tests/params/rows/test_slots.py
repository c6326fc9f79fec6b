"""Ids are made unique, summed and grouped the same way every time."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.params.rows.initial import table_key
from paceline.params.rows.slots import group_by_slot, slot_of, sum_duplicates, unique_ids

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


@on_any_machine
@given(id_arrays, st.integers(1, 20))
def test_groups_hold_every_id_once_in_its_slot_and_in_order(
    ids: NDArray[np.int64], num_slots: int
) -> None:
    key = table_key("user")
    order, slots, counts = group_by_slot(ids, key, num_slots)
    assert sorted(order.tolist()) == list(range(len(ids)))
    assert list(slots) == sorted(set(slots))
    assert all(count > 0 for count in counts)
    assert sum(counts) == len(ids)
    starts = np.cumsum(counts)[:-1].astype(np.int64)
    for slot, places in zip(slots, np.split(order, starts), strict=False):
        assert places.tolist() == sorted(places.tolist())
        np.testing.assert_array_equal(slot_of(key, ids[places], num_slots), slot)


def test_no_ids_make_no_groups() -> None:
    none = np.empty(0, np.int64)
    order, slots, counts = group_by_slot(none, 1, 16)
    assert (len(order), slots, counts) == (0, (), ())
    assert sum_duplicates(none, np.empty((0, 4), np.float32), 0).shape == (0, 4)


def test_gradients_of_equal_ids_are_summed() -> None:
    _, inverse = unique_ids(np.array([7, 3, 7]))
    gradients = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    assert sum_duplicates(inverse, gradients, 2).tolist() == [[6, 8], [3, 4]]


def test_ids_spread_over_all_slots_and_tables_spread_differently() -> None:
    ids = np.arange(16_000)
    slots = slot_of(table_key("user"), ids, 16)
    assert np.bincount(slots, minlength=16).min() > 850
    assert (slots == slot_of(table_key("item"), ids, 16)).mean() < 0.1


def test_slots_are_the_same_on_every_machine() -> None:
    assert table_key("user") == 0x99E389D25C10AF32
    ids = np.array([0, 1, -1, 2**63 - 1])
    assert slot_of(table_key("user"), ids, 16).tolist() == [2, 4, 12, 10]
