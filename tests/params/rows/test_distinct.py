"""A batch's distinct ids, by the positions of their slots, are those of plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.params.rows.distinct import distinct_ids
from paceline.params.rows.initial import table_key
from tests.params.rows.compiled.reference import slot_of
from tests.params.rows.test_unique_ids import id_arrays, on_any_machine

KEY = table_key("user")


@on_any_machine
@given(id_arrays, st.integers(1, 20).flatmap(lambda n: st.permutations(range(n))))
def test_distinct_ids_are_grouped_by_position_in_the_order_of_their_arrival(
    ids: NDArray[np.int64], positions: list[int]
) -> None:
    found = distinct_ids(ids, KEY, np.array(positions, np.int64))
    seen = np.array(list(dict.fromkeys(ids.tolist())), np.int64)
    by_position = np.array(positions, np.int64)[slot_of(KEY, seen, len(positions))]
    assert found.ids.tolist() == seen[np.argsort(by_position, kind="stable")].tolist()
    assert found.ids[found.inverse].tolist() == ids.tolist()
    assert (
        found.counts.tolist() == np.bincount(by_position, minlength=len(positions)).tolist()
    )


@pytest.mark.parametrize("step", [1, 16, 2**15, 2**40, 2**63 - 1])
def test_ids_far_apart_in_equal_steps_are_told_apart(step: int) -> None:
    ids = np.arange(5_000, dtype=np.int64) * np.int64(step)  # what overflows begins again
    found = distinct_ids(np.concatenate([ids, ids]), KEY, np.arange(16))
    assert sorted(found.ids.tolist()) == sorted(set(ids.tolist()))
    np.testing.assert_array_equal(found.ids[found.inverse], np.concatenate([ids, ids]))


def test_ids_that_are_read_only_or_not_aligned_are_taken() -> None:
    raw = np.frombuffer(b"\0" + np.array([7, 3, 7]).tobytes(), np.int64, offset=1)
    assert not raw.flags.aligned
    assert not raw.flags.writeable
    found = distinct_ids(raw, KEY, np.arange(1))
    assert found.ids.tolist() == [7, 3]
    assert found.inverse.tolist() == [0, 1, 0]


def slots_of(table: str, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The slot of each of distinct ids, of 16."""
    found = distinct_ids(ids, table_key(table), np.arange(16))
    return np.repeat(np.arange(16), found.counts)[found.inverse]


def test_ids_spread_over_all_slots_and_tables_spread_differently() -> None:
    ids = np.arange(16_000)
    slots = slots_of("user", ids)
    assert np.bincount(slots, minlength=16).min() > 850
    assert (slots == slots_of("item", ids)).mean() < 0.1


def test_slots_are_the_same_on_every_machine() -> None:
    assert table_key("user") == 0x99E389D25C10AF32
    ids = np.array([0, 1, -1, 2**63 - 1])
    assert slots_of("user", ids).tolist() == [2, 4, 12, 10]
