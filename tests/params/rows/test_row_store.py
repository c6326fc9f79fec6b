"""Slots that share a store are as each would be alone, to the bit, whatever comes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.config import FTRL, SGD, Adagrad, Adam, RowOptimizer, Uniform
from paceline.messages.shared import TableSpec
from paceline.params.rows.row_store import RowStore
from paceline.params.rows.table import TABLE_STEPS, RowTable

SLOTS = (3, 4, 7)
IDS = {slot: np.arange(slot, 3_000, 8) for slot in SLOTS}  # nobody has another's
OPTIMIZERS = [SGD(lr=0.1), Adagrad(), Adam(), Adam(steps="row"), FTRL(lr=0.1)]

turns = st.lists(
    st.tuples(
        st.sampled_from(["push", "make", "read", "snapshot", "load"]),
        st.sets(st.sampled_from(SLOTS), min_size=1),
        st.integers(0, 2**32),
    ),
    max_size=9,
)


Columns = Mapping[str, NDArray[Any]]


class Draw(NamedTuple):
    """``ids[ends[n]:ends[n + 1]]`` lie in ``slots[n]``."""

    slots: list[int]
    ends: list[int]
    ids: NDArray[np.int64]


def tables(optimizer: RowOptimizer, store: RowStore | None) -> dict[int, RowTable]:
    spec = TableSpec("user", 3, optimizer, Uniform(0.1))
    return {slot: RowTable(spec, 5, slot, store) for slot in SLOTS}


def shared(optimizer: RowOptimizer) -> tuple[RowStore, dict[int, RowTable]]:
    store = RowStore(TableSpec("user", 3, optimizer, Uniform(0.1)), 5)
    return store, tables(optimizer, store)


def drawn(seed: int, slots: list[int]) -> Draw:
    """Ids of some slots."""
    random = np.random.default_rng(seed)
    found = [random.permutation(IDS[slot])[: random.integers(0, 200)] for slot in slots]
    ends = [0, *np.cumsum([len(one) for one in found]).tolist()]
    return Draw(slots, ends, np.concatenate(found))


def twice(draw: Draw) -> Draw:
    """Some ids of each slot repeated, which a read may."""
    slots, ends, ids = draw
    shares = [np.resize(one, len(one) * 3 // 2) for one in np.split(ids, ends[1:-1])]
    more = [0, *np.cumsum([len(one) for one in shares]).tolist()]
    return Draw(slots, more, np.concatenate(shares))


def change(store: RowStore, alone: dict[int, RowTable], kind: str, draw: Draw) -> None:
    """Push to both, or read both, making rows or not."""
    slots, ends, ids = draw if kind == "push" else twice(draw)
    out = np.empty((len(ids), 3), np.float32)
    gradients = np.random.default_rng(len(ids)).normal(size=out.shape).astype(np.float32)
    if kind == "push":
        store.apply(slots, ends, ids, gradients)
    else:
        store.gather_into(slots, ends, ids, kind == "make", out)
    for slot, start, stop in zip(slots, ends, ends[1:], strict=False):
        if kind == "push":
            alone[slot].apply(ids[start:stop], gradients[start:stop])
        else:
            found = alone[slot].gather(ids[start:stop], create=kind == "make")
            assert found.tobytes() == out[start:stop].tobytes()


def require_equal(found: Columns, expected: Columns) -> None:
    """To the bit."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert array.tobytes() == found[name].tobytes(), name


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(OPTIMIZERS), turns)
def test_slots_of_a_store_are_as_they_are_alone(
    optimizer: RowOptimizer, came: list[tuple[str, set[int], int]]
) -> None:
    store, together = shared(optimizer)
    alone = tables(optimizer, None)
    moments, touched = [], list[int]()
    for kind, some, seed in came:
        draw = drawn(seed, sorted(some))
        if kind in {"push", "make", "read"}:
            change(store, alone, kind, draw)
            touched += draw.ids.tolist() if kind != "read" else []
            continue
        for slot in draw.slots:
            if kind == "load":
                together[slot].load(alone[slot].export())
            elif slot not in store.snapshots:
                moments.append((together[slot].snapshot(), alone[slot].export()))
    for snapshot, expected in moments:
        while not snapshot.copy_some(1):
            pass
        require_equal(snapshot.arrays(), expected)
    for slot in SLOTS:
        require_equal(together[slot].export(), alone[slot].export())
        order = [one for one in dict.fromkeys(touched) if one % 8 == slot]
        assert store.ids(slot).tolist() == order


def test_a_row_begins_as_its_id_and_optimizer_say_whatever_comes_with_it() -> None:
    for optimizer in OPTIMIZERS:
        store, together = shared(optimizer)
        single = {slot: tables(optimizer, None)[slot] for slot in SLOTS}
        for seed in range(4):  # of those that come most are new at first, and few at last
            draw = drawn(seed, [*SLOTS])
            out = np.empty((len(draw.ids), 3), np.float32)
            store.gather_into(*draw, create=True, out=out)
        for slot in SLOTS:
            for one in store.ids(slot).copy():
                single[slot].gather(np.array([one]), create=True)
            require_equal(together[slot].export(), single[slot].export())


def test_slots_that_have_counted_other_steps_go_on_as_they_count() -> None:
    store, together = shared(Adam())
    alone = tables(Adam(), None)
    ids, ones = np.arange(2), np.ones((2, 3), np.float32)
    for held in (together, alone):
        held[3].apply(ids[:1], ones[:1])  # as of another moment than the others
    store.apply((3, 4), (0, 1, 2), ids, ones)
    for number, slot in enumerate((3, 4)):
        alone[slot].apply(ids[number : number + 1], ones[:1])
        found = together[slot].export()
        assert found[TABLE_STEPS] == 2 - number
        require_equal(found, alone[slot].export())


def test_a_store_has_all_its_slots_before_its_first_row() -> None:
    store, together = shared(Adagrad())
    together[3].gather(np.arange(1), create=True)
    with pytest.raises(AssertionError, match="before there are rows"):
        store.add(9)


def test_rows_begin_where_a_line_of_the_cache_does() -> None:
    store = RowStore(TableSpec("user", 16, Adam(), Uniform(0.1)), 5)
    store.add(3)
    for ids in (IDS[3][:9], IDS[3]):  # what is there moves for more
        out = np.empty((len(ids), 16), np.float32)
        store.gather_into([3], [0, len(ids)], ids, create=True, out=out)
        for column in (store.values, *store.state.values()):
            assert column.ctypes.data % 64 == 0
