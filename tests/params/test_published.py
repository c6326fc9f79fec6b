"""A reader of published values has them of one moment, or knows that it must ask."""

import itertools
import threading
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.params.published import (
    KEY_BYTES,
    Bytes,
    PublishedValues,
    ValuesReader,
    bytes_needed,
)

KEY = bytes(range(KEY_BYTES))
SIZES = {3: 100, 7: 8, 9: 4096}


class Shared:
    """Both ends over the same memory."""

    def __init__(self, sizes: Mapping[int, int] = SIZES) -> None:
        self.memory = np.zeros(bytes_needed(sizes), np.uint8)
        self.writer = PublishedValues(self.memory, sizes, KEY, threading.Lock())
        self.reader = ValuesReader(self.memory, sizes, KEY)
        self.places = {slot: np.zeros(size, np.uint8) for slot, size in sizes.items()}

    def read(self, at_round: int = 0) -> int | None:
        return self.reader.read_into(self.places, at_round)

    def fill(self, slot: int, value: int) -> None:
        self.writer.decide()
        self.writer.blocks[slot].fill(value)
        self.writer.done()


@pytest.fixture
def shared() -> Shared:
    return Shared()


def test_what_was_changed_is_read(shared: Shared) -> None:
    for slot in SIZES:
        shared.fill(slot, slot)
    assert shared.read() == 0
    assert all((place == slot).all() for slot, place in shared.places.items())


def test_blocks_lie_apart_and_aligned(shared: Shared) -> None:
    start = shared.memory.ctypes.data
    where = [(shared.writer.blocks[s].ctypes.data - start, SIZES[s]) for s in SIZES]
    assert all(offset % 64 == 0 for offset, _ in where)
    for (offset, size), (following, _) in itertools.pairwise(where):
        assert offset + size <= following


def test_while_a_decided_change_is_not_done_the_server_is_asked(shared: Shared) -> None:
    shared.writer.decide()
    assert shared.read() is None
    shared.writer.done()
    assert shared.read() == 0


class Interrupted(dict[int, Bytes]):
    """Places; while the reader looks one up, a whole change passes."""

    def __init__(self, shared: Shared, changes: int) -> None:
        super().__init__(shared.places)
        self._shared, self._left = shared, changes

    def __getitem__(self, slot: int) -> Bytes:
        if self._left and slot == max(SIZES):
            self._left -= 1
            for each in SIZES:
                self._shared.fill(each, 100 + self._left)
        return super().__getitem__(slot)


def test_a_copy_that_a_change_has_crossed_is_made_again(shared: Shared) -> None:
    assert shared.reader.read_into(Interrupted(shared, changes=1), 0) == 0
    assert all((place == 100).all() for place in shared.places.values())


def test_who_is_crossed_again_and_again_asks(shared: Shared) -> None:
    assert shared.reader.read_into(Interrupted(shared, changes=9), 0) is None


def test_a_round_is_there_when_all_before_it_are(shared: Shared) -> None:
    shared.writer.applied(2)
    assert shared.read(at_round=1) is None
    shared.writer.applied(1)
    assert shared.read(at_round=2) == 2
    shared.writer.applied(1)
    assert shared.read(at_round=2) == 2, "told twice"
    assert shared.read(at_round=3) is None


@given(st.permutations(range(4, 12)))
def test_rounds_may_end_in_any_order(order: list[int]) -> None:
    shared = Shared({0: 8})
    shared.writer.stand_at(3, 3)
    done = {3}
    for number in order:
        shared.writer.applied(number)
        done.add(number)
        whole = next(n for n in range(3, 13) if n + 1 not in done)
        assert shared.read() == whole


def test_values_that_are_over_are_read_no_more(shared: Shared) -> None:
    shared.writer.retire()
    assert shared.read() is None


@pytest.mark.parametrize("key", [bytes(KEY_BYTES), KEY[::-1]])
def test_another_memory_is_not_read(shared: Shared, key: bytes) -> None:
    with pytest.raises(UsageError, match="under the key told"):
        ValuesReader(shared.memory, SIZES, key)


def test_a_memory_of_another_part_is_not_read(shared: Shared) -> None:
    with pytest.raises(UsageError, match="expected"):
        ValuesReader(shared.memory, {**SIZES, 11: 1}, KEY)


@pytest.fixture
def writing() -> Iterator[Shared]:
    """Somebody sets all bytes of all blocks to the same number, as fast as it can."""
    shared = Shared(dict.fromkeys(range(4), 1 << 16))
    over = threading.Event()

    def write() -> None:
        for number in itertools.cycle(range(256)):
            for _ in range(4):
                shared.writer.decide()
            for slot in range(4):
                shared.writer.blocks[slot].fill(number)
                shared.writer.done()
            if over.wait(0.0002):
                return

    thread = threading.Thread(target=write)
    thread.start()
    yield shared
    over.set()
    thread.join(10)


@pytest.mark.slow
def test_no_torn_value_is_ever_read(writing: Shared) -> None:
    seen = set()
    for _ in range(5_000_000):
        if writing.read() is not None:
            first = {int(place[0]) for place in writing.places.values()}
            assert len(first) == 1
            assert all((place == place[0]).all() for place in writing.places.values())
            seen |= first
        if len(seen) > 50:
            break
    assert len(seen) > 1, "nothing was read while it changed"
