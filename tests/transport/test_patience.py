"""A patient connection is made again after a loss, and says why there is no answer."""

import msgspec
import pytest

from paceline.errors import DeadlineExceeded, ForeignPeer, PeerLost, TransportError
from paceline.timing import Deadline, ManualClock
from paceline.transport.connection import Answer, Connection
from paceline.transport.handshake import Welcome
from paceline.transport.patience import PatientConnection


class Word(msgspec.Struct, frozen=True):
    """Question and answer."""

    text: str


class Other:
    """The other end: what befalls each call, in order; then it answers."""

    def __init__(self, *losses: TransportError) -> None:
        self.losses = list(losses)
        self.made: list[StubConnection] = []
        self.clock = ManualClock()

    def connect(self) -> Connection:
        if self.losses and isinstance(self.losses[0], ForeignPeer):
            raise self.losses.pop(0)
        self.made.append(StubConnection(self))
        return self.made[-1]


class StubConnection(Connection):
    def __init__(self, other: Other) -> None:
        super().__init__("stub:", Welcome(run="r1", role="coordinator"), other.clock)
        self.other, self.is_closed = other, False

    def submit(self, message: msgspec.Struct, *_: object, **__: object) -> int:
        assert isinstance(message, Word)
        self.said = message
        return 1

    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        del request_id, timeout_s
        if self.other.losses:
            raise self.other.losses.pop(0)
        return Answer(Word(f"to {self.said.text}"), [])

    def close(self) -> None:
        self.is_closed = True


ASKED = Word("a question")
ANSWER = Word("to a question")


def nothing() -> None:
    """Whoever is looked for may come back."""


def test_one_connection_serves_many_calls() -> None:
    other = Other()
    way = PatientConnection(other.connect)
    assert [way.call(ASKED, 1.0) for _ in range(3)] == [ANSWER] * 3
    assert len(other.made) == 1


@pytest.mark.parametrize("loss", [PeerLost("gone"), DeadlineExceeded("late")])
def test_after_a_loss_the_next_call_makes_another(loss: TransportError) -> None:
    other = Other(loss)
    way = PatientConnection(other.connect)
    with pytest.raises(type(loss)):
        way.call(ASKED, 1.0)
    assert other.made[0].is_closed
    assert way.call(ASKED, 1.0) == ANSWER
    assert len(other.made) == 2


def test_who_is_only_late_may_be_kept() -> None:
    other = Other(DeadlineExceeded("late"), PeerLost("gone"))
    way = PatientConnection(other.connect, keeps_late=True)
    with pytest.raises(DeadlineExceeded):
        way.call(ASKED, 1.0)
    assert not other.made[0].is_closed
    with pytest.raises(PeerLost):
        way.call(ASKED, 1.0)
    assert other.made[0].is_closed


def test_it_is_asked_again_until_there_is_an_answer() -> None:
    other, looks = Other(PeerLost("gone"), PeerLost("still gone")), list[int]()
    way = PatientConnection(other.connect)
    deadline = Deadline(other.clock, 5.0)
    assert way.wait_answer(ASKED, deadline, lambda: looks.append(1)) == ANSWER
    assert (len(other.made), len(looks)) == (3, 2)


def test_at_the_deadline_the_last_reason_is_told() -> None:
    other = Other(PeerLost("gone"), PeerLost("nobody listens"))
    way = PatientConnection(other.connect)
    deadline = Deadline(other.clock, 5.0)
    with pytest.raises(PeerLost, match="nobody listens"):
        way.wait_answer(ASKED, deadline, lambda: other.clock.advance(2.5))


def test_who_will_not_come_back_is_not_waited_for() -> None:
    def is_dead() -> None:
        raise LookupError("its process is gone")

    other = Other(PeerLost("gone"))
    way = PatientConnection(other.connect)
    with pytest.raises(LookupError, match="its process is gone"):
        way.wait_answer(ASKED, Deadline(other.clock, 5.0), is_dead)
    assert len(other.made) == 1


def test_a_stranger_is_asked_once() -> None:
    other = Other(ForeignPeer("another run"))
    way = PatientConnection(other.connect)
    with pytest.raises(ForeignPeer):
        way.wait_answer(ASKED, Deadline(other.clock, 5.0), nothing)


def test_closing_ends_the_waiting() -> None:
    other = Other(PeerLost("gone"))
    way = PatientConnection(other.connect)
    with pytest.raises(PeerLost, match="gone"):
        way.wait_answer(ASKED, Deadline(other.clock, 5.0), way.close)
    with pytest.raises(PeerLost, match="closed"):
        way.call(ASKED, 1.0)
    assert all(one.is_closed for one in other.made)


def test_what_is_connected_while_it_is_closed_is_closed_again() -> None:
    other = Other()

    def connect_late() -> Connection:
        way.close()
        return other.connect()

    way = PatientConnection(connect_late)
    with pytest.raises(PeerLost, match="closed"):
        way.call(ASKED, 1.0)
    assert other.made[0].is_closed
