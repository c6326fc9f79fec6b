"""Events wait in a bounded inbox, in order, each once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.trainer.peers.events import Event, Inbox


def event(sender: str = "trainer-1", topic: str = "") -> Event:
    return Event(sender, topic, b"")


def test_events_are_taken_in_the_order_of_their_coming() -> None:
    inbox = Inbox()
    inbox.put(event(topic="a"), 1, 1, 0)
    inbox.put(event("trainer-2", topic="b"), 2, 1, 0)
    assert [one.topic for one in inbox.take()] == ["a", "b"]
    assert inbox.take() == []


def test_what_was_taken_once_is_known_also_when_it_is_read() -> None:
    inbox = Inbox()
    inbox.put(event(), 1, 1, 0)
    assert inbox.verdict("trainer-1", 1, 1, 0) == "known"
    inbox.take()
    assert inbox.verdict("trainer-1", 1, 1, 0) == "known"
    assert inbox.verdict("trainer-1", 1, 2, 0) == "room"


def test_a_successor_counts_anew() -> None:
    inbox = Inbox()
    inbox.put(event(), 1, 9, 0)
    assert inbox.verdict("trainer-1", 2, 1, 0) == "room"


@pytest.mark.parametrize(
    ("num_bytes", "verdict"), [(4, "room"), (5, "full"), (11, "too large")]
)
def test_bytes_are_bounded(num_bytes: int, verdict: str) -> None:
    inbox = Inbox(most_bytes=10)
    inbox.put(event(), 1, 1, 6)
    assert inbox.verdict("trainer-1", 1, 2, num_bytes) == verdict


def test_events_are_bounded_and_the_reason_says_what_to_do() -> None:
    inbox = Inbox(most_events=1)
    inbox.put(event(), 1, 1, 3)
    assert inbox.verdict("trainer-2", 4, 1, 0) == "full"
    assert inbox.why_full().startswith("its inbox is full (1 events, 3 bytes)")
    inbox.take()
    assert inbox.verdict("trainer-2", 4, 1, 0) == "room"


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(0, 9))))
def test_nothing_waits_beyond_the_bounds_or_twice(
    sent: list[tuple[int, int, int]],
) -> None:
    inbox = Inbox(most_events=4, most_bytes=12)
    taken: list[str] = []
    for incarnation, number, num_bytes in sent:
        if inbox.verdict("trainer-1", incarnation, number, num_bytes) == "room":
            name = f"{incarnation:03d}.{number:03d}"
            inbox.put(event(topic=name), incarnation, number, num_bytes)
        assert len(inbox) <= 4
        if num_bytes == 9:
            taken += [one.topic for one in inbox.take()]
    taken += [one.topic for one in inbox.take()]
    assert taken == sorted(set(taken))
