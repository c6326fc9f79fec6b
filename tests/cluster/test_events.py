"""Events between trainers, in one process."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import paceline
from paceline.errors import DeadlineExceeded, UsageError
from paceline.trainer.peers.events import MOST_EVENTS, Event

Run = Callable[..., list[Any]]
PATIENCE_S = 50.0


def wait_events(session: paceline.Session, count: int) -> list[Event]:
    found: list[Event] = []
    while len(found) < count:
        came = session.events(PATIENCE_S)
        assert came, f"{len(found)} of {count} events came"
        found += came
    return found


def test_events_to_one_come_once_and_in_order(run: Run) -> None:
    def script(session: paceline.Session) -> list[Event]:
        me = session.trainer
        if me == "trainer-0":
            return wait_events(session, 200)
        for number in range(100):
            session.send("trainer-0", number.to_bytes(2, "big"), topic=me)
        return []

    came, _, _ = run(script)
    for sender in ("trainer-1", "trainer-2"):
        own = [e for e in came if e.sender == sender]
        assert [int.from_bytes(e.payload, "big") for e in own] == list(range(100))
        assert {e.topic for e in own} == {sender}


def test_arrays_to_all_come_as_they_were(run: Run) -> None:
    sent = (np.arange(6.0).reshape(2, 3), np.array([], np.int64), np.array([True]))
    met = threading.Barrier(3)

    def script(session: paceline.Session) -> list[Event]:
        session.poll()  # from now on it is a member, and has an inbox
        met.wait(PATIENCE_S)
        if session.trainer == "trainer-2":
            session.send("all", sent, topic="sums")
            return []
        return wait_events(session, 1)

    first, second, none = run(script)
    assert none == []
    for [event] in (first, second):
        assert (event.sender, event.topic) == ("trainer-2", "sums")
        for array, expected in zip(event.payload, sent, strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)
            assert array.flags.writeable


def test_a_full_inbox_lets_the_sender_wait_until_its_deadline(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        if session.trainer == "trainer-1":
            session.poll()  # and never again
            return
        for _ in range(MOST_EVENTS):
            session.send("trainer-1", b"")
        with pytest.raises(DeadlineExceeded, match="its inbox is full"):
            session.send("trainer-1", b"", timeout_s=0.3)

    run(script, trainers=2)


def test_who_never_opens_a_door_is_named(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        if session.trainer == "trainer-0":
            with pytest.raises(DeadlineExceeded, match="trainer-1 has not opened its door"):
                session.send("trainer-1", b"", timeout_s=0.2)
            with pytest.raises(DeadlineExceeded, match="trainer-7 is no member"):
                session.send("trainer-7", b"", timeout_s=0.2)

    run(script, trainers=2)


@pytest.mark.parametrize(
    ("to", "payload", "match"),
    [
        ("trainer-0", b"", "expected another trainer"),
        ("server-0", b"", "expected another trainer"),
        ("trainer-1", "text", "expected bytes or arrays of numbers, got str"),
        ("trainer-1", np.array([None]), "got object"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    run: Run, to: str, payload: Any, match: str
) -> None:
    def script(session: paceline.Session) -> None:
        with pytest.raises(UsageError, match=match):
            session.send(to, payload)

    run(script, trainers=1)


def test_nothing_comes_to_a_wait_without_events(run: Run) -> None:
    def script(session: paceline.Session) -> list[Event]:
        return session.events(0.01) + session.poll()

    assert run(script, trainers=1) == [[]]
