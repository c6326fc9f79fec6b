"""Events on their way to whoever is at work.

A thread that has several requests at hand brings them together: they become one group, of
one transaction of the journal, instead of one each.

Waits for nothing. Any thread may call, under the lock of the service.
"""

import threading
from collections import deque
from typing import final

from paceline.coordinator.state import Event, TimePassed


@final
class Inbox:
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

    def gather(self) -> None:
        """The calling thread has more to bring."""
        self._gathering.add(threading.get_ident())

    def gathered(self) -> None:
        """It has brought all."""
        self._gathering.discard(threading.get_ident())
