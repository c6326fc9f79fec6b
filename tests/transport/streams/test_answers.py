"""When a connection stays awake for its next answer, and that it sleeps otherwise."""

import socket

from paceline.timing import ManualClock
from paceline.transport.streams.answers import (
    ASLEEP_WAITS,
    SOON_S,
    AnswerWait,
    Wakefulness,
)


def test_it_sleeps_until_an_answer_has_come_soon() -> None:
    wakefulness = Wakefulness()
    assert not wakefulness.pays(0)
    wakefulness.came(SOON_S)
    assert wakefulness.pays(0)
    wakefulness.came(2 * SOON_S)
    assert not wakefulness.pays(0)


def test_who_was_pushed_off_its_core_sleeps_for_a_while() -> None:
    wakefulness = Wakefulness()
    wakefulness.came(0.0)
    assert wakefulness.pays(0)
    assert [wakefulness.pays(1) for _ in range(ASLEEP_WAITS)].count(True) == 0
    assert wakefulness.pays(1)


def test_awake_or_asleep_it_finds_what_has_come_and_gives_up_in_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # Its clock stands still: looking has an end nevertheless.
        waits = AnswerWait(ours, ManualClock())
        for _ in range(2):
            theirs.send(b"1")
            assert waits.wait(10.0)
            assert ours.recv(1) == b"1"
        assert not waits.wait(0.01)
