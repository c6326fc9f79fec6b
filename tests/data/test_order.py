"""Position -> record is a permutation that looks like chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.data.order import records_at


def epoch_order(n: int, seed: int = 0, epoch: int = 0) -> np.ndarray:
    return records_at(np.arange(n), n, seed, epoch, shuffle=True)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 3000),
    seed=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(0, 10**6),
)
def test_every_record_stands_at_exactly_one_position(n: int, seed: int, epoch: int) -> None:
    assert np.array_equal(np.sort(epoch_order(n, seed, epoch)), np.arange(n))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 2**62), data=st.data())
def test_distinct_positions_of_huge_data_hold_distinct_records(
    n: int, data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=50))
    records = records_at(np.array(wanted, np.int64), n, 3, 1, shuffle=True)
    assert len(np.unique(records)) == len(wanted)
    assert np.all((records >= 0) & (records < n))


def test_a_position_has_its_record_whoever_asks_for_how_much() -> None:
    whole = epoch_order(5000, seed=9, epoch=2)
    part = records_at(np.arange(700, 900), 5000, 9, 2, shuffle=True)
    assert np.array_equal(part, whole[700:900])


def test_without_shuffle_position_is_record() -> None:
    positions = np.array([4, 0, 2])
    records = records_at(positions, 5, 1, 1, shuffle=False)
    assert records.tolist() == [4, 0, 2]
    records[0] = 9
    assert positions[0] == 4


def test_the_order_is_the_same_on_every_machine_and_release() -> None:
    assert epoch_order(10, seed=7, epoch=1).tolist() == [7, 5, 1, 3, 2, 8, 4, 6, 9, 0]


@pytest.mark.parametrize(("seed", "epoch"), [(0, 1), (1, 0), (-1, 0)])
def test_another_seed_or_epoch_is_another_order(seed: int, epoch: int) -> None:
    same = int((epoch_order(10_000) == epoch_order(10_000, seed, epoch)).sum())
    assert same < 10  # one is expected of two independent orders


@pytest.mark.parametrize("n", [4096, 4097, 10_000])
def test_an_order_shows_no_pattern(n: int) -> None:
    order = epoch_order(n, seed=5)
    cells, _, _ = np.histogram2d(np.arange(n), order, bins=8)
    expected = n / 64
    assert ((cells - expected) ** 2 / expected).sum() < 120  # chi2(49): beyond 1e-6
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 5 / n**0.5
    assert np.bincount(np.diff(order) % n).max() < 12  # no favorite step


def test_all_orders_of_four_records_are_about_equally_likely() -> None:
    orders = [tuple(epoch_order(4, seed)) for seed in range(2400)]
    counts = {order: orders.count(order) for order in set(orders)}
    assert len(counts) == 24
    assert min(counts.values()) > 60
    assert max(counts.values()) < 140


def test_the_first_loop_has_the_order_of_its_seed_and_others_their_own() -> None:
    orders = [
        records_at(np.arange(1000), 1000, 3, 1, True, loop=loop).tolist()
        for loop in range(4)
    ]
    assert orders[0] == epoch_order(1000, seed=3, epoch=1).tolist()
    assert all(sorted(order) == list(range(1000)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert orders[1] != epoch_order(1000, seed=3, epoch=2).tolist()
