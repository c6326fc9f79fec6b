"""Questions that cannot be answered yet, kept so that few of them are looked at again.

An event may concern a thousand parked questions or none. What they wait for in common is
a *gate*: a value made of everything that their answers depend on. As long as it is the
same, only questions parked since the last look can have an answer.

::

    park(key, question)   a new one of the same asker takes the old one's place
    to_look_at(gate)      all of them when the gate has changed, else the new ones
    oldest_due(now)       the one that has waited long enough, if there is one

Pure.
"""

import math
from collections.abc import Iterator
from typing import Generic, TypeVar, final

import msgspec

from paceline.messages import Message

KeyT = TypeVar("KeyT")


class Parked(msgspec.Struct, frozen=True):
    """A question that waits: who asked, what, and until when."""

    ticket: int
    role: str
    message: Message
    until_s: float


@final
class Parking(Generic[KeyT]):
    """Parked questions of one kind, by who asks, the longest waiting first.

    All wait equally long, so that the order of parking is the order of falling due.
    """

    def __init__(self, *, is_looked_at: bool = True) -> None:
        """Nobody waits; ``is_looked_at``: there is a gate, and `to_look_at` is asked."""
        self._is_looked_at = is_looked_at
        self._parked: dict[KeyT, Parked] = {}
        self._new: dict[KeyT, None] = {}  # those not looked at yet, in order
        self._gate: object = None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._parked)

    def __contains__(self, key: object) -> bool:
        """Whether this asker waits."""
        return key in self._parked

    def __iter__(self) -> Iterator[KeyT]:
        """Who waits; nothing may be parked or taken meanwhile."""
        return iter(self._parked)

    def __getitem__(self, key: KeyT) -> Parked:
        """What this asker waits with.

        Raises:
            KeyError: it does not wait.
        """
        return self._parked[key]

    def get(self, key: KeyT) -> Parked | None:
        """What this asker waits with; None if it does not wait."""
        return self._parked.get(key)

    def items(self) -> list[tuple[KeyT, Parked]]:
        """All who wait, and what with."""
        return list(self._parked.items())

    def park(self, key: KeyT, question: Parked) -> None:
        """Let a question wait, behind all others."""
        self._parked.pop(key, None)
        self._parked[key] = question
        if self._is_looked_at:
            self._new[key] = None

    def take(self, key: KeyT) -> Parked | None:
        """An asker waits no longer; what it has waited with, if it did."""
        return self._parked.pop(key, None)

    def take_all(self) -> list[Parked]:
        """Nobody waits any longer; what all have waited with."""
        taken = list(self._parked.values())
        self._parked = {}
        return taken

    def to_look_at(self, gate: object) -> list[tuple[KeyT, Parked]]:
        """Questions that may have an answer now and had none at the last look.

        Args:
            gate: equal to that of the last look only if all else that an answer depends
                on belongs to the question itself and has not changed since it was parked.
        """
        keys = self._parked if gate != self._gate else self._new
        assert self._is_looked_at, "what is new is not kept here"
        found = [(key, self._parked[key]) for key in keys if key in self._parked]
        self._gate, self._new = gate, {}
        return found

    def look_at_all(self) -> None:
        """The next look is at everybody, whatever its gate."""
        self._gate = None

    def first_due_s(self) -> float:
        """When the first has waited long enough; never, if nobody waits."""
        oldest = next(iter(self._parked.values()), None)
        return math.inf if oldest is None else oldest.until_s

    def oldest_due(self, now: float) -> tuple[KeyT, Parked] | None:
        """Who has waited longest, if its time is over; it waits on until it is taken."""
        if not self._parked:
            return None
        key, question = next(iter(self._parked.items()))
        return None if question.until_s > now else (key, question)
