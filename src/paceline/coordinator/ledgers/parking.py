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
from typing import Generic, NamedTuple, TypeVar, final

import msgspec
from msgspec.structs import replace

from paceline.messages.shared import Message
from paceline.messages.waits import Wait

KeyT = TypeVar("KeyT")

AGAIN_S = 2.0  # who was put off asks again within this, or waits no more


class Parked(msgspec.Struct, frozen=True):
    """A question that waits: who asked, what, until when, and since when.

    It is put off when its time is over; who asks again still waits since the first time.
    """

    ticket: int
    role: str
    message: Message
    until_s: float
    since_s: float = 0.0


class _PutOff(NamedTuple):
    """What somebody was told who has to wait on, when, and since when it waits."""

    wait: Wait
    told_s: float
    since_s: float


class Asker(msgspec.Struct, frozen=True):
    """Who asks, and the ticket under which the answer goes back."""

    role: str
    ticket: int


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
        self._put_off: dict[KeyT, _PutOff] = {}  # the longest ago first
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
        before = self._put_off.get(key) if self._put_off else None
        if before is not None:
            if question.since_s - before.told_s <= AGAIN_S:
                question = replace(question, since_s=before.since_s)
            else:
                del self._put_off[key]
        self._parked[key] = question
        if self._is_looked_at:
            self._new[key] = None

    def take(self, key: KeyT) -> Parked | None:
        """An asker waits no longer; what it has waited with, if it did."""
        if self._put_off:
            self._put_off.pop(key, None)
        self._new.pop(key, None)
        return self._parked.pop(key, None)

    def put_off(self, key: KeyT, wait: Wait, now: float) -> None:
        """An asker is told what it waits for; when it asks again, it has waited on."""
        question = self._parked.pop(key)
        self._new.pop(key, None)
        self._put_off.pop(key, None)
        self._put_off[key] = _PutOff(wait, now, question.since_s)
        while (first := next(iter(self._put_off))) != key and not self._waits(first, now):
            del self._put_off[first]

    def waits(self, now: float) -> list[tuple[KeyT, Wait]]:
        """Who was put off and still waits, with what it was told."""
        return [
            (key, one.wait.lasting(now - one.since_s))
            for key, one in self._put_off.items()
            if self._waits(key, now)
        ]

    def _waits(self, key: KeyT, now: float) -> bool:
        return key in self._parked or now - self._put_off[key].told_s <= AGAIN_S

    def take_all(self) -> list[Parked]:
        """Nobody waits any longer; what all have waited with."""
        taken = list(self._parked.values())
        self._parked, self._new, self._put_off = {}, {}, {}
        return taken

    def to_look_at(self, gate: object) -> list[tuple[KeyT, Parked]]:
        """Questions that may have an answer now and had none at the last look.

        Args:
            gate: equal to that of the last look only if all else that an answer depends
                on belongs to the question itself and has not changed since it was parked.
        """
        keys = self._parked if gate != self._gate else self._new
        assert self._is_looked_at, "what is new is not kept here"
        found = [(key, self._parked[key]) for key in keys]
        self._gate, self._new = gate, {}
        return found

    def are_all_new(self) -> bool:
        """Whether nobody was looked at before, so that the gate makes no difference."""
        return len(self._new) == len(self._parked)

    def must_look(self) -> bool:
        """Whether the next look is at somebody even behind the same gate."""
        return bool(self._new) or self._gate is None

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


@final
class Questions:
    """All questions that wait, by what they ask for."""

    def __init__(self) -> None:
        """Nobody waits."""
        self.leases: Parking[int] = Parking()  # {incarnation: AskLease}
        # {(incarnation, part): Tick}, and the same: Meet
        self.ticks: Parking[tuple[int, int]] = Parking(is_looked_at=False)
        self.meets: Parking[tuple[int, int]] = Parking(is_looked_at=False)
        self.ahead: Parking[int] = Parking()  # {incarnation: MayGoOn}
        self.shares: Parking[tuple[int, int]] = Parking()  # the same: SharePart
        self.steps: Parking[int] = Parking(is_looked_at=False)  # {incarnation: CommitStep}
        self.saves: Parking[int] = Parking()  # {incarnation: Save}
        self.servers: Parking[str] = Parking()  # {server id: ServerReport}
        self.paces: Parking[int] = Parking()  # {ticket: ChangePace}

    def forget(self, incarnation: int) -> None:
        """A trainer is gone: nobody waits for these answers."""
        for asked in (self.leases, self.saves, self.steps, self.ahead):
            asked.take(incarnation)
        for waiting in (self.ticks, self.shares, self.meets):
            for key in [key for key in waiting if key[0] == incarnation]:
                waiting.take(key)

    def take_all_of_trainers(self) -> list[Parked]:
        """No trainer waits any longer; what all have waited with."""
        return [
            *self.leases.take_all(),
            *self.ticks.take_all(),
            *self.ahead.take_all(),
            *self.shares.take_all(),
            *self.saves.take_all(),
            *self.meets.take_all(),
            *self.steps.take_all(),
        ]

    def look_at_all(self) -> None:
        """Whoever waits is looked at again, as if everything had changed."""
        for asked in (self.leases, self.ahead, self.saves, self.paces):
            asked.look_at_all()
        self.shares.look_at_all()
        self.servers.look_at_all()
