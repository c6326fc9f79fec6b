"""Events on their way to whoever is at work.

A thread that has several requests at hand brings them together: they become one group, of
one transaction of the journal, instead of one each.

Waits for nothing. Any thread may call, under the lock of the service.
"""

import threading
from collections import deque
from collections.abc import Container
from typing import final

from paceline.coordinator.state import Asked, Disconnected, Event, TimePassed
from paceline.messages.trainer import Leave


@final
class EventInbox:
    """Events that nobody has seen to yet."""

    def __init__(self) -> None:
        """There are none."""
        self._events: deque[Event] = deque()
        self._gathering: set[int] = set()  # threads that will see to theirs together

    def __len__(self) -> int:
        """How many there are."""
        return len(self._events)

    def put(self, event: Event) -> bool:
        """Add an event; whether it is to be seen to now."""
        self._events.append(event)
        return threading.get_ident() not in self._gathering

    def take(self) -> list[Event]:
        """All of them; time passes last, so that signs of life count first."""
        events: list[Event] = [e for e in self._events if not isinstance(e, TimePassed)]
        if len(events) < len(self._events):
            events.append(TimePassed())
        self._events.clear()
        return events

    def drop(self, told: Container[int], connected: Container[int]) -> None:
        """Questions that were told to come again do, and who is back never went.

        That a trainer leaves is told only once, and stays.

        Args:
            told: tickets of these questions.
            connected: incarnations with an open connection.
        """
        kept = [event for event in self._events if not _is_void(event, told, connected)]
        self._events = deque(kept)

    def gather(self) -> None:
        """The calling thread has more to bring."""
        self._gathering.add(threading.get_ident())

    def gathered(self) -> None:
        """It has brought all."""
        self._gathering.discard(threading.get_ident())


def _is_void(event: Event, told: Container[int], connected: Container[int]) -> bool:
    if isinstance(event, Asked):
        return event.ticket in told and not isinstance(event.message, Leave)
    return isinstance(event, Disconnected) and event.incarnation in connected
