"""Parked questions: who is looked at again, and who has waited long enough."""

import pytest

from paceline.coordinator.parking import Parked, Parking
from paceline.messages import Done


def question(ticket: int, until_s: float = 1.0) -> Parked:
    return Parked(ticket, f"trainer-{ticket}", Done(), until_s)


@pytest.fixture
def parking() -> Parking[int]:
    made: Parking[int] = Parking()
    for key in (3, 1, 2):
        made.park(key, question(key, until_s=float(10 - key)))
    return made


def looked_at(parking: Parking[int], gate: object) -> list[int]:
    return [key for key, _ in parking.to_look_at(gate)]


def test_everybody_is_looked_at_once_and_again_when_the_gate_has_changed(
    parking: Parking[int],
) -> None:
    assert looked_at(parking, "closed") == [3, 1, 2]
    assert looked_at(parking, "closed") == []
    assert looked_at(parking, "open") == [3, 1, 2]


def test_behind_an_unchanged_gate_only_new_questions_are_looked_at(
    parking: Parking[int],
) -> None:
    looked_at(parking, "closed")
    parking.park(4, question(4))
    parking.park(1, question(5))
    assert looked_at(parking, "closed") == [4, 1]


def test_who_was_answered_meanwhile_is_not_looked_at(parking: Parking[int]) -> None:
    parking.take(1)
    assert looked_at(parking, "closed") == [3, 2]


def test_all_can_be_looked_at_whatever_the_gate(parking: Parking[int]) -> None:
    looked_at(parking, "closed")
    parking.look_at_all()
    assert looked_at(parking, "closed") == [3, 1, 2]


def test_a_new_question_takes_the_place_of_the_old_one_behind_all_others(
    parking: Parking[int],
) -> None:
    parking.park(3, question(6))
    assert list(parking) == [1, 2, 3]
    assert parking[3].ticket == 6


def test_the_longest_waiting_is_due_first_and_nobody_before_its_time() -> None:
    parking: Parking[int] = Parking()
    parking.park(1, question(1, until_s=1.0))
    parking.park(2, question(2, until_s=2.0))
    assert parking.oldest_due(0.9) is None
    assert parking.oldest_due(1.0) == (1, question(1, until_s=1.0))
    parking.take(1)
    assert parking.oldest_due(1.0) is None
    assert len(parking) == 1


def test_nothing_is_left_of_questions_that_nobody_looks_at() -> None:
    parking: Parking[int] = Parking(is_looked_at=False)
    for key in range(100):
        parking.park(key, question(key))
        assert parking.take(key) == question(key)
    assert not any(vars(parking)[name] for name in ("_parked", "_new"))
