"""What happens next is what comes first, however far ahead it was written down."""

import heapq
import itertools
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from paceline.forecast.agenda import Agenda

LONG_S = 1e6
moments = st.one_of(
    st.floats(0, 0.01),
    st.floats(0, 2),
    st.floats(0, LONG_S),
    st.sampled_from([0.0, 0.002, 0.004, 1.0]),  # ends of slots
)


def happened(begin: list[float], seed: int) -> list[tuple[float, int]]:
    """(moment, number of writing) of all that happens, where much makes for more."""
    agenda, random, found = Agenda(), Random(seed), list[tuple[float, int]]()
    numbers = itertools.count()

    def happen(number: int) -> None:
        found.append((agenda.now_s, number))
        if random.random() < 0.6:
            write(agenda.now_s + random.choice([0.0, 1e-4, 0.003, 0.5, -1.0]))

    def write(moment_s: float) -> None:
        agenda.at(moment_s, happen, next(numbers))

    for moment_s in begin:
        write(moment_s)
    agenda.run(2 * LONG_S)
    return found


def on_one_heap(begin: list[float], seed: int) -> list[tuple[float, int]]:
    """The same, from a single heap."""
    random, found, coming = Random(seed), list[tuple[float, int]](), []
    numbers, now_s = itertools.count(), 0.0
    for moment_s in begin:
        heapq.heappush(coming, (moment_s, next(numbers)))
    while coming:
        moment_s, number = heapq.heappop(coming)
        now_s = max(now_s, moment_s)
        found.append((now_s, number))
        if random.random() < 0.6:
            then_s = now_s + random.choice([0.0, 1e-4, 0.003, 0.5, -1.0])
            heapq.heappush(coming, (then_s, next(numbers)))
    return found


@given(st.lists(moments, max_size=40), st.integers(0, 2**31))
def test_what_happens_comes_in_the_order_of_one_heap(begin: list[float], seed: int) -> None:
    assert happened(begin, seed) == on_one_heap(begin, seed)


def test_nothing_happens_behind_the_end() -> None:
    agenda, found = Agenda(), list[float]()
    for moment_s in (1.0, 2.0, 3.0):
        agenda.at(moment_s, lambda: found.append(agenda.now_s))
    agenda.at(2.0, agenda.end)
    assert agenda.run(LONG_S)
    assert found == [1.0, 2.0]


def test_what_an_end_has_put_off_happens_in_the_next_run() -> None:
    agenda, found = Agenda(), list[float]()
    for moment_s in (1.0, 2.0, 3.0):
        agenda.at(moment_s, lambda: found.append(agenda.now_s))
    agenda.at(1.0, agenda.end)
    agenda.run(LONG_S)
    assert not agenda.run(2.5)
    assert found == [1.0, 2.0]


def test_what_is_too_far_ahead_does_not_happen_yet() -> None:
    agenda, found = Agenda(), list[float]()
    agenda.at(5.0, lambda: found.append(agenda.now_s))
    assert not agenda.run(4.0)
    assert not found
    agenda.at(10.0, agenda.end)
    assert agenda.run(10.0)
    assert found == [5.0]
