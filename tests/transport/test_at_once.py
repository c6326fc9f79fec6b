"""Within a process a reply may be taken where it is given, and nobody is woken."""

import threading

import msgspec
import pytest

from paceline.errors import DeadlineExceeded
from tests.transport.corridors import (
    PATIENCE_S,
    InProcessCorridor,
    Memory,
    Park,
    Said,
    Say,
    UnixCorridor,
)


class Taking:
    """Takes so many replies, each with another question, and leaves the next."""

    def __init__(self, *questions: msgspec.Struct) -> None:
        self.questions, self.taken = list(questions), list[msgspec.Struct]()
        self.threads = list[threading.Thread]()

    def __call__(self, reply: msgspec.Struct) -> msgspec.Struct | None:
        self.threads.append(threading.current_thread())
        if not self.questions:
            return None
        self.taken.append(reply)
        return self.questions.pop(0)


@pytest.fixture
def corridor() -> InProcessCorridor:
    return InProcessCorridor()


def test_a_reply_is_taken_in_the_thread_that_gives_it(
    corridor: InProcessCorridor, service: Memory
) -> None:
    corridor.listen(service)
    connection, taking = corridor.connect(), Taking(Park("b"), Park("c"))
    number = connection.submit(Park("a"), at_once=taking)
    for name in "ab":
        service.wait_parked(name)[0](Said(name))
    assert taking.taken == [Said("a"), Said("b")]
    assert {*taking.threads} == {threading.current_thread()}
    with pytest.raises(DeadlineExceeded):  # the last question is open, the first is it
        connection.wait_reply(number, 0.0)


def test_a_reply_that_is_left_is_waited_for(
    corridor: InProcessCorridor, service: Memory
) -> None:
    corridor.listen(service)
    connection, taking = corridor.connect(), Taking(Park("b"))
    number = connection.submit(Park("a"), at_once=taking)
    service.wait_parked("a")[0](Said("a"))
    service.wait_parked("b")[0](Said("b"))
    assert connection.wait_reply(number, PATIENCE_S).message == Said("b")


def test_a_reply_that_comes_within_the_question_is_taken_too(
    corridor: InProcessCorridor, service: Memory
) -> None:
    corridor.listen(service)
    taking = Taking(Say("second"), Say("third"))
    answer = corridor.connect().call(Say("first"), timeout_s=PATIENCE_S, at_once=taking)
    assert taking.taken == [Said("first"), Said("second")]
    assert answer.message == Said("third")


def test_a_question_given_up_is_not_asked_on(
    corridor: InProcessCorridor, service: Memory
) -> None:
    corridor.listen(service)
    connection, taking = corridor.connect(), Taking(Park("b"))
    number = connection.submit(Park("a"), at_once=taking)
    with pytest.raises(DeadlineExceeded):
        connection.wait_reply(number, 0.0)
    service.wait_parked("a")[0](Said("a"))
    assert taking.taken == []
    assert "b" not in service.parked


def test_over_a_socket_replies_are_waited_for(service: Memory) -> None:
    corridor, taking = UnixCorridor(), Taking(Say("never"))
    try:
        corridor.listen(service)
        connection = corridor.connect()
        answer = connection.call(Say("a"), timeout_s=PATIENCE_S, at_once=taking)
        assert (answer.message, taking.threads) == (Said("a"), [])
    finally:
        corridor.close()
