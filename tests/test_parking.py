"""Parked questions: who is looked at again, and who has waited long enough."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.coordinator.ledgers import Parked
from paceline.messages.shared import Done
from paceline.messages.waits import Wait
from paceline.parking import AGAIN_S, Parking

Questions = Parking[int, Parked]


def question(ticket: int, until_s: float = 1.0) -> Parked:
    return Parked(ticket, f"trainer-{ticket}", Done(), until_s=until_s)


@pytest.fixture
def parking() -> Questions:
    made: Questions = Parking()
    for key in (3, 1, 2):
        made.park(key, question(key, until_s=float(10 - key)))
    return made


def looked_at(parking: Questions, gate: object) -> list[int]:
    return [key for key, _ in parking.to_look_at(gate)]


def test_everybody_is_looked_at_once_and_again_when_the_gate_has_changed(
    parking: Questions,
) -> None:
    assert looked_at(parking, "closed") == [3, 1, 2]
    assert looked_at(parking, "closed") == []
    assert looked_at(parking, "open") == [3, 1, 2]


def test_behind_an_unchanged_gate_only_new_questions_are_looked_at(
    parking: Questions,
) -> None:
    looked_at(parking, "closed")
    parking.park(4, question(4))
    parking.park(1, question(5))
    assert looked_at(parking, "closed") == [4, 1]


def test_the_gate_makes_no_difference_while_nobody_was_looked_at(
    parking: Questions,
) -> None:
    assert parking.are_all_new()
    looked_at(parking, "closed")
    parking.park(4, question(4))
    assert not parking.are_all_new(), "the others were"
    for key in (3, 1, 2):
        parking.take(key)
    assert parking.are_all_new()
    parking.take(4)
    parking.park(5, question(5))
    looked_at(parking, "closed")
    assert not parking.are_all_new()


def test_who_was_answered_meanwhile_is_not_looked_at(parking: Questions) -> None:
    parking.take(1)
    assert looked_at(parking, "closed") == [3, 2]


def test_all_can_be_looked_at_whatever_the_gate(parking: Questions) -> None:
    looked_at(parking, "closed")
    parking.look_at_all()
    assert looked_at(parking, "closed") == [3, 1, 2]


def test_a_new_question_takes_the_place_of_the_old_one_behind_all_others(
    parking: Questions,
) -> None:
    parking.park(3, question(6))
    assert list(parking.asked) == [1, 2, 3]
    assert parking.asked[3].ticket == 6


def test_the_longest_waiting_is_due_first_and_nobody_before_its_time() -> None:
    parking: Questions = Parking()
    parking.park(1, question(1, until_s=1.0))
    parking.park(2, question(2, until_s=2.0))
    assert not parking.due(0.9)
    assert parking.due(1.0) == [(1, question(1, until_s=1.0))]
    assert [key for key, _ in parking.due(2.0)] == [1, 2]
    parking.take(1)
    assert not parking.due(1.0)
    assert len(parking.asked) == 1


def test_nothing_is_left_of_questions_that_nobody_looks_at() -> None:
    parking: Questions = Parking(is_looked_at=False)
    for key in range(100):
        parking.park(key, question(key))
        assert parking.take(key) == question(key)
    assert not any(vars(parking)[name] for name in ("_parked", "_new"))


WAIT = Wait("round", "others", ("trainer-9",))


class Asked(NamedTuple):
    """An asker comes, is put off, is answered, or goes, after so many seconds."""

    key: int
    what: str
    after_s: float


asked = st.builds(
    Asked,
    st.integers(0, 2),
    st.sampled_from(["park", "put off", "take"]),
    st.floats(0.0, 3.0),
)


@given(st.lists(asked, max_size=40))
def test_who_is_put_off_and_asks_again_waits_since_the_first_time(
    events: list[Asked],
) -> None:
    parking: Questions = Parking()
    now, began, told = 0.0, {}, {}  # {key: when}
    for key, what, after_s in events:
        now += after_s
        for gone in [one for one in told if one not in parking.asked]:
            if now - told[gone] > AGAIN_S:
                del began[gone], told[gone]
        if what == "park":
            parking.park(key, Parked(0, "trainer", Done(), until_s=now + 1.0, since_s=now))
            began.setdefault(key, now)
            if key in told and now - told[key] > AGAIN_S:
                del told[key]
                began[key] = now
            if key not in told:
                began[key] = now
            assert parking.asked[key].since_s == began[key]
        elif what == "take":
            parking.take(key)
            began.pop(key, None)
            told.pop(key, None)
        elif key in parking.asked:
            parking.put_off(key, WAIT, now)
            told[key] = now
        waits = dict(parking.waits(now))
        assert waits.keys() == told.keys()
        for one, wait in waits.items():
            assert wait.since_s == pytest.approx(now - began[one], abs=1e-3)


def test_nothing_is_left_of_those_who_were_put_off_and_never_came_back() -> None:
    parking: Questions = Parking()
    for key in range(100):
        now = float(10 * key)
        parking.park(key, Parked(0, "trainer", Done(), until_s=now + 1.0, since_s=now))
        parking.put_off(key, WAIT, now + 1.0)
    assert len(vars(parking)["_put_off"]) == 1


def test_who_waits_is_found_once_a_moment_and_putting_off_changes_nothing() -> None:
    parking: Questions = Parking()
    parking.park(1, question(1))
    found = parking.who_waits(1.0)
    assert parking.who_waits(1.0) is found
    parking.put_off(1, WAIT, 1.0)
    assert parking.who_waits(1.0) is found
    assert found == {1}
    assert parking.who_waits(1.0 + AGAIN_S) == {1}
    assert parking.who_waits(1.5 + AGAIN_S) == set(), "it has not asked again"


def test_who_comes_or_goes_is_known_at_the_same_moment() -> None:
    parking: Questions = Parking()
    assert parking.who_waits(1.0) == set()
    for key in (1, 2, 3):
        parking.park(key, question(key))
    assert parking.who_waits(1.0) == {1, 2, 3}
    parking.put_off(1, WAIT, 1.0)
    parking.take(1)
    parking.take(2)
    assert parking.who_waits(1.0) == {3}
    parking.take_all()
    assert parking.who_waits(1.0) == set()


changes = st.tuples(
    st.sampled_from(["park", "put off", "take", "take all"]),
    st.tuples(st.integers(0, 2), st.sampled_from("ab")),  # who asks, and for what
    st.sampled_from([0.0, 0.0, 1.0, AGAIN_S]),  # after so many seconds
)


@given(st.lists(changes, max_size=40))
def test_who_waits_is_never_a_stale_answer(
    events: list[tuple[str, tuple[int, str], float]],
) -> None:
    parking: Parking[tuple[int, str], Parked] = Parking(who=lambda key: key[0])
    now = 0.0
    for what, key, after_s in events:
        now += after_s
        if what == "park":
            parking.park(key, Parked(0, "trainer", Done(), until_s=now + 1.0, since_s=now))
        elif what == "take":
            parking.take(key)
        elif what == "take all":
            parking.take_all()
        elif key in parking.asked:
            parking.put_off(key, WAIT, now)
        parked = {asker for asker, _ in parking.asked}
        assert parking.who_waits(now) == parked | dict(parking.waits(now)).keys()
