"""What is laid out for others can be had, now or when it is; nothing else can."""

from typing import Any

import numpy as np
import pytest

from paceline.messages.peers import AskValues, Values
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.parking import PARK_S
from paceline.timing import ManualClock
from paceline.trainer.peers.outbox import PeerOutbox


class Asker:
    """Asks, and keeps what is answered."""

    def __init__(self, shelf: PeerOutbox, name: str = "trainer-1") -> None:
        self.shelf, self.name = shelf, name
        self.answers: list[Message] = []
        self.numbers: list[list[float]] = []

    def ask(self, exchange: int, stage: int = 0, **more: Any) -> None:
        asked = AskValues(
            incarnation=1, timeline=0, to=2, exchange=exchange, stage=stage, **more
        )

        def reply(message: Message, buffers: Any = ()) -> None:
            self.answers.append(message)
            self.numbers += [np.asarray(b).view(np.float64).tolist() for b in buffers]

        self.shelf.received(self.name, asked, [], reply)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shelf(clock: ManualClock) -> PeerOutbox:
    return PeerOutbox(clock)


def test_what_lies_there_is_had_at_once(shelf: PeerOutbox) -> None:
    shelf.lay_out(7, 0, [np.array([1.0, 2.0])])
    asker = Asker(shelf)
    asker.ask(7)
    assert isinstance(asker.answers[0], Values)
    assert asker.numbers == [[1.0, 2.0]]


def test_who_is_early_has_it_when_it_is_laid_out(shelf: PeerOutbox) -> None:
    asker = Asker(shelf)
    asker.ask(7, slice_of=(1, 2))
    shelf.lay_out(6, 0, [np.zeros(2)])
    assert asker.answers == []
    shelf.lay_out(7, 0, [np.array([1.0, 2.0, 3.0])])
    assert asker.numbers == [[2.0, 3.0]]


def test_values_of_another_exchange_are_never_had(
    shelf: PeerOutbox, clock: ManualClock
) -> None:
    shelf.lay_out(7, 0, [np.zeros(1)])
    asker = Asker(shelf)
    asker.ask(8)
    asker.ask(7, stage=1)
    clock.advance(PARK_S)
    shelf.sweep()
    assert [type(answer) for answer in asker.answers] == [Waiting, Waiting]


def test_who_asks_anew_is_answered_once_with_values(shelf: PeerOutbox) -> None:
    asker = Asker(shelf)
    asker.ask(7)
    asker.ask(8)
    shelf.lay_out(8, 0, [np.zeros(1)])
    assert [type(answer) for answer in asker.answers] == [Waiting, Values]


def test_another_exchange_takes_the_place_of_the_last(shelf: PeerOutbox) -> None:
    shelf.lay_out(7, 0, [np.zeros(1)])
    shelf.lay_out(7, 1, [np.zeros(1)])
    shelf.lay_out(8, 0, [np.ones(1)])
    asker = Asker(shelf)
    asker.ask(7)
    asker.ask(7, stage=1)
    assert asker.numbers == []


@pytest.mark.parametrize("slice_of", [(0, 0), (2, 2), (-1, 2), (0, -1)])
def test_a_slice_that_is_none_is_refused(
    shelf: PeerOutbox, slice_of: tuple[int, int]
) -> None:
    shelf.lay_out(7, 0, [np.array([1.0, 2.0])])
    asker = Asker(shelf)
    asker.ask(7, slice_of=slice_of)
    assert isinstance(asker.answers[0], Refusal)
    assert asker.numbers == []
