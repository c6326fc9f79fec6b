"""Events of other trainers that the user's script has not looked at yet.

Bounded by number and bytes; one that arrives twice is taken once.

Pure.
"""

from collections import deque
from typing import Literal, NamedTuple, final

import numpy as np

MOST_EVENTS = 1024
MOST_BYTES = 64 << 20  # of all that wait; also of a single one

Payload = bytes | tuple["np.ndarray", ...]


class Event(NamedTuple):
    """What another trainer has sent.

    Attributes:
        sender: role id of the trainer.
        topic: as it was sent.
        payload: bytes, or arrays of the shapes and dtypes that were sent; the receiver's.
    """

    sender: str
    topic: str
    payload: Payload


@final
class Inbox:
    """Events that wait, oldest first."""

    def __init__(
        self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._most_events, self._most_bytes = most_events, most_bytes
        self._waiting: deque[tuple[Event, int]] = deque()  # (event, its bytes)
        self._num_bytes = 0
        self._last: dict[str, tuple[int, int]] = {}  # {sender: (since, number)}

    def __len__(self) -> int:
        return len(self._waiting)

    def verdict(
        self, sender: str, since: int, number: int, num_bytes: int
    ) -> Literal["room", "known", "full", "too large"]:
        """Whether an event may be `put`; the numbers of a sender grow, from 1.

        ``since``: the incarnation in which the sender's process began to count; a later
        process of it counts anew.
        """
        if (since, number) <= self._last.get(sender, (0, 0)):
            return "known"
        if num_bytes > self._most_bytes:
            return "too large"
        is_full = len(self._waiting) >= self._most_events
        if is_full or self._num_bytes + num_bytes > self._most_bytes:
            return "full"
        return "room"

    def put(self, event: Event, since: int, number: int, num_bytes: int) -> None:
        """Take an event for which there is room."""
        self._last[event.sender] = (since, number)
        self._waiting.append((event, num_bytes))
        self._num_bytes += num_bytes

    def take(self) -> list[Event]:
        """All that wait, in order; none waits afterwards."""
        taken = [event for event, _ in self._waiting]
        self._waiting.clear()
        self._num_bytes = 0
        return taken

    def why_full(self) -> str:
        """What keeps an event out, for whoever sends it."""
        return (
            f"its inbox is full ({len(self._waiting)} events, {self._num_bytes} bytes): "
            f"its script has not called session.events or session.poll for a while"
        )
