"""What has come and is not seen to: events on their way in, questions without an answer.

A thread that has several requests at hand brings them together: they become one group, of
one transaction of the journal, instead of one each.

Waits for nothing. Any thread may call, under the lock of the service.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Container
from typing import NamedTuple, final

from paceline.coordinator.state import Asked, Disconnected, Event, TimePassed
from paceline.ids import RoleKind, role_kind
from paceline.messages.trainer import Leave
from paceline.transport import service as link

MAX_UNANSWERED = 100_000  # questions whose asker has put another one in their place


class Unanswered(NamedTuple):
    """A question that somebody may wait for."""

    ticket: int
    kind: RoleKind
    reply: link.Reply


@final
class Answers:
    """Questions that have no answer yet, by ticket."""

    def __init__(self) -> None:
        self._tickets = itertools.count(1)
        self._open: dict[int, tuple[str, link.Reply]] = {}  # {ticket: (role, way back)}

    def open(self, role: str, reply: link.Reply) -> int:
        """A question came; its ticket."""
        ticket = next(self._tickets)
        self._open[ticket] = (role, reply)
        return ticket

    def take(self, ticket: int) -> link.Reply | None:
        """The way back of a question, once; None if it was taken."""
        _, reply = self._open.pop(ticket, ("", None))
        if len(self._open) > MAX_UNANSWERED:
            self._open.pop(next(iter(self._open)))
        return reply

    def take_all(self, kinds: Container[RoleKind]) -> list[Unanswered]:
        """All questions of these kinds of roles."""
        found = [
            Unanswered(ticket, kind, reply)
            for ticket, (role, reply) in self._open.items()
            if (kind := role_kind(role)) in kinds
        ]
        for one in found:
            del self._open[one.ticket]
        return found


@final
class Connections:
    """Whose connections are open, and how many of each incarnation."""

    def __init__(self) -> None:
        self._incarnations: dict[int, int] = {}  # {connection: whose it is}
        self._num: Counter[int] = Counter()  # by incarnation

    def __contains__(self, incarnation: object) -> bool:
        return incarnation in self._num

    def belongs(self, connection: int, incarnation: int) -> None:
        """Note whose a connection is; 0: nobody's."""
        before = self._incarnations.get(connection, 0)
        if before == incarnation:
            return
        if before:
            del self._incarnations[connection]
            self._num[before] -= 1
            if not self._num[before]:
                del self._num[before]
        if incarnation:
            self._incarnations[connection] = incarnation
            self._num[incarnation] += 1

    def closed(self, connection: int) -> int:
        """One has closed; whose last one it was, 0 if it was not the last."""
        incarnation = self._incarnations.get(connection, 0)
        self.belongs(connection, 0)
        return 0 if incarnation in self._num else incarnation


@final
class EventInbox:
    """Events that nobody has seen to yet."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._has_time_passed = False
        self._gathering: set[int] = set()  # threads that will see to theirs together

    def put(self, event: Event) -> bool:
        """Add an event; whether it is to be seen to now."""
        if type(event) is TimePassed:
            self._has_time_passed = True
        else:
            self._events.append(event)
        return not self._gathering or threading.get_ident() not in self._gathering

    def take(self) -> list[Event]:
        """All of them; time passes last, so that signs of life count first."""
        taken, self._events = self._events, []
        if self._has_time_passed:
            self._has_time_passed = False
            taken.append(TimePassed())
        return taken

    def drop(self, told: Container[int], connected: Container[int]) -> None:
        """Questions that were ``told`` to come again do, and who is back never went.

        That a trainer leaves is told only once, and stays.
        """
        kept = [event for event in self._events if not _is_void(event, told, connected)]
        self._events = kept

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
