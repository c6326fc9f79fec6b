"""Questions that cannot be answered yet, kept so that few of them are looked at again.

An event may concern a thousand parked questions or none. What they wait for in common is
a *gate*: a value made of everything that their answers depend on. As long as it is the
same, only questions parked since the last look can have an answer.

::

    park(key, question)   a new one of the same asker takes the old one's place
    to_look_at(gate)      all of them when the gate has changed, else the new ones
    due(now)              those that have waited long enough: they are answered, or put
                          off with the reason of the wait, and ask again

Pure: time is an argument.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, final

import msgspec
from msgspec.structs import replace

from paceline.messages.waits import Wait

PARK_S = 1.0  # how long a question waits before it is put off
AGAIN_S = 2.0  # who was put off asks again within this, or waits no more


class ParkedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for an answer, until when, and since when.

    It is put off when its time is over; who asks again still waits since the first time.
    """

    until_s: float
    since_s: float = 0.0


KeyT = TypeVar("KeyT")
QuestionT = TypeVar("QuestionT", bound=ParkedQuestion)


class _PutOff(NamedTuple):
    """What somebody was told who has to wait on, when, and since when it waits."""

    wait: Wait
    told_s: float
    since_s: float


def _itself(key: KeyT) -> KeyT:
    return key


@final
class Parking(Generic[KeyT, QuestionT]):
    """Parked questions of one kind, by who asks, the longest waiting first.

    All wait equally long, so that the order of parking is the order of falling due.

    Attributes:
        asked: what each asker waits with, as it is just now.
    """

    def __init__(
        self, *, is_looked_at: bool = True, who: Callable[[KeyT], Any] = _itself
    ) -> None:
        """Nobody waits.

        Args:
            is_looked_at: there is a gate, and `to_look_at` is asked.
            who: asks with a key, where one asker may wait with several.
        """
        self._is_looked_at, self._who = is_looked_at, who
        self._parked: dict[KeyT, QuestionT] = {}
        self.asked: Mapping[KeyT, QuestionT] = MappingProxyType(self._parked)
        self._new: dict[KeyT, None] = {}  # those not looked at yet, in order
        self._put_off: dict[Any, _PutOff] = {}  # {who: it}, the longest ago first
        self._gate: object = None
        self._found: tuple[float, set[Any]] | None = None  # when, and who waited then

    def park(self, key: KeyT, question: QuestionT) -> QuestionT | None:
        """Let a question wait, behind all others; the one whose place it takes."""
        self._found = None
        replaced = self._parked.pop(key, None)
        before = self._put_off.get(self._who(key)) if self._put_off else None
        if before is not None:
            if question.since_s - before.told_s <= AGAIN_S:
                question = replace(question, since_s=before.since_s)
            else:
                del self._put_off[self._who(key)]
        self._parked[key] = question
        if self._is_looked_at:
            self._new[key] = None
        return replaced

    def take(self, key: KeyT) -> QuestionT | None:
        """An asker waits no longer; what it has waited with, if it did."""
        self._found = None
        if self._put_off:
            self._put_off.pop(self._who(key), None)
        if self._new:
            self._new.pop(key, None)
        return self._parked.pop(key, None)

    def put_off(self, key: KeyT, wait: Wait, now: float) -> None:
        """An asker is told what it waits for; when it asks again, it has waited on."""
        question, who = self._parked.pop(key), self._who(key)
        self._new.pop(key, None)
        self._put_off.pop(who, None)
        self._put_off[who] = _PutOff(wait, now, question.since_s)
        while (first := next(iter(self._put_off))) != who and not self._waits(first, now):
            del self._put_off[first]

    def waits(self, now: float) -> list[tuple[KeyT, Wait]]:
        """Who was put off and still waits, with what it was told."""
        return [
            (who, one.wait.lasting(now - one.since_s))
            for who, one in self._put_off.items()
            if self._waits(who, now)
        ]

    def who_waits(self, now: float) -> set[Any]:
        """Who waits, parked just now or about to ask again; not to be changed."""
        if self._found is None or self._found[0] != now:  # putting off changes nothing
            put_off = (who for who in self._put_off if self._waits(who, now))
            self._found = now, {*map(self._who, self._parked), *put_off}
        return self._found[1]

    def _waits(self, who: Any, now: float) -> bool:  # noqa: ANN401  (a key, or of one)
        return who in self._parked or now - self._put_off[who].told_s <= AGAIN_S

    def take_all(self) -> list[QuestionT]:
        """Nobody waits any longer; what all have waited with."""
        taken = list(self._parked.values())
        self._parked.clear()
        self._new, self._put_off, self._found = {}, {}, None
        return taken

    def to_look_at(self, gate: object) -> list[tuple[KeyT, QuestionT]]:
        """Questions that may have an answer now and had none at the last look.

        Args:
            gate: equal to that of the last look only if all else that an answer depends
                on belongs to the question itself and has not changed since it was parked.
        """
        assert self._is_looked_at, "what is new is not kept here"
        keys = self._parked if gate != self._gate else self._new
        self._gate = gate
        if not keys:  # and so nobody is new
            return []
        self._new, found = {}, [(key, self._parked[key]) for key in keys]
        return found

    def are_all_new(self) -> bool:
        """Whether nobody was looked at before, so that the gate makes no difference."""
        return len(self._new) == len(self._parked)

    def look_at_all(self) -> None:
        """The next look is at everybody, whatever its gate."""
        self._gate = None

    def first_due_s(self) -> float:
        """When the first has waited long enough; never, if nobody waits."""
        oldest = next(iter(self._parked.values()), None)
        return math.inf if oldest is None else oldest.until_s

    def due(self, now: float) -> list[tuple[KeyT, QuestionT]]:
        """Those whose time is over, who wait on until they are taken or put off."""
        due = []
        for one in self._parked.items():
            if one[1].until_s > now:
                break
            due.append(one)
        return due
