"""A call of three trainers, by hand: whom each asks for what, and what comes of it."""

from typing import Any

import numpy as np
import pytest

from paceline.errors import UsageError
from paceline.messages.meeting import Exchange, Member
from paceline.messages.peers import ArraySpec, AskValues, Values
from paceline.timing import ManualClock
from paceline.trainer.peers.collective import CollectiveCall, Operation
from paceline.trainer.peers.outbox import PeerOutbox

NAMES = ("trainer-0", "trainer-1", "trainer-2")
HUGE = 1e16  # so large that the order of addition shows


class Trio:
    """Three trainers' calls, and the exchange that they are members of."""

    def __init__(self, operation: Operation, absent: tuple[str, ...] = ()) -> None:
        own = {
            name: np.array([HUGE, 1.0, -HUGE][i : i + 1] * 4)
            for i, name in enumerate(NAMES)
        }
        self.shelves = {name: PeerOutbox(ManualClock()) for name in NAMES}
        self.calls = {
            name: CollectiveCall(name, name, operation, [own[name]], self.shelves[name])
            for name in NAMES
        }
        self.own = own
        members = tuple(
            Member(name, index + 1, 1, 2, name, name not in absent)
            for index, name in enumerate(NAMES)
        )
        self.exchange = Exchange(name=7, part=0, round=1, members=members)

    def run(self, order: tuple[str, ...] = NAMES) -> None:
        """Everybody asks what it has to; the answers come in ``order``."""
        stages = [self.calls[name].begin(self.exchange) for name in NAMES]
        for stage in range(stages[0]):
            for name in NAMES:
                asked = self.calls[name].questions(stage)
                for other in (other for other in order if other in asked):
                    self.answer(name, other, asked[other])
            for name in NAMES:
                self.calls[name].came(stage)

    def answer(self, asker: str, other: str, question: AskValues) -> None:
        def reply(message: Any, buffers: Any = ()) -> None:
            assert isinstance(message, Values), message
            payload = self.calls[asker].attach(other, question)
            sizes = [buffer.nbytes for buffer in buffers]
            assert payload.landing is not None
            assert list(payload.reply_sizes) == sizes, "room is kept for what comes"
            places = payload.landing(message, sizes)
            for place, buffer in zip(places, buffers, strict=True):
                np.asarray(place)[:] = buffer

        self.shelves[other].received(asker, question, [], reply)

    def results(self) -> list[bytes]:
        return [b"".join(a.tobytes() for a in self.calls[n].results) for n in NAMES]


@pytest.mark.parametrize("how", ["allreduce", "regroup+allgather"])
def test_the_order_of_answers_changes_no_bit(how: Any) -> None:
    found = []
    for order in (NAMES, NAMES[::-1], (NAMES[1], NAMES[2], NAMES[0])):
        trio = Trio(Operation("t", "allreduce", "add", how))
        trio.run(order)
        found += trio.results()
    expected = np.array([(HUGE + 1.0) - HUGE] * 4)
    assert set(found) == {expected.tobytes()}


@pytest.mark.parametrize("how", ["allreduce", "regroup+allgather"])
def test_who_brings_nothing_gets_what_the_others_have(how: Any) -> None:
    trio = Trio(Operation("t", "allreduce", "add", how), absent=(NAMES[1],))
    trio.run()
    assert set(trio.results()) == {np.zeros(4).tobytes()}


def test_if_nobody_brings_anything_it_comes_to_nothing() -> None:
    trio = Trio(Operation("t", "allreduce"), absent=NAMES)
    trio.run()
    assert set(trio.results()) == {np.zeros(4).tobytes()}


def test_a_root_that_is_not_there_is_named() -> None:
    trio = Trio(Operation("t", "broadcast", root="trainer-9"))
    with pytest.raises(UsageError, match="trainer-9 is not in this round, only trainer-0"):
        trio.run()


def test_values_that_are_none_are_refused() -> None:
    trio = Trio(Operation("t", "allreduce"))
    call = trio.calls[NAMES[0]]
    call.begin(trio.exchange)
    landing = call.attach(NAMES[1], call.questions(0)[NAMES[1]]).landing
    assert landing is not None
    with pytest.raises(UsageError, match="trainer-1 sent 3 bytes"):
        landing(Values(arrays=(ArraySpec((4,), "<f8"),)), [3])


def test_a_call_alone_is_its_own_result() -> None:
    call = Trio(Operation("t", "broadcast", root="trainer-2")).calls[NAMES[0]]
    call.alone()
    assert not call.is_committed
    assert call.results[0].tolist() == [HUGE] * 4
