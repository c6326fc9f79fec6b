"""The locks of all parts of one server, and the held pushes that are written under them.

What a held push has, its numbers and its lock, waits here until its step is committed or
its trainer fenced. A lock is let go in the same breath as the write under it is decided, so
that whoever is next reads behind it.

Waits for nothing. Called under the lock of the `ServerCore`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, final

import numpy as np

from paceline.messages.data import Push
from paceline.messages.locking import KeepLocks, Lock
from paceline.server.decisions import ServerState
from paceline.server.decisions.verdicts import Verdict
from paceline.server.locks.locks import (
    LockAsk,
    LockAsker,
    LockEffect,
    LockGranted,
    LockRefused,
    LockTable,
)
from paceline.server.requests.contents import Int64s, PushContents
from paceline.server.slots import Actions, Slots

_TIMELINE_BITS: Final = 40  # tokens of a timeline are counted below


class LockKey(NamedTuple):
    """A request for rows of a part."""

    part: int
    who: LockAsker


Grants = list[LockKey]
Steps = Mapping[int, Mapping[int, int]]  # {incarnation: {part: committed push}}


@final
class Locks:
    """All locks of one server; they belong to a timeline, and end with it.

    Everything that may let a lock go returns whose turn it is then.
    """

    def __init__(self, timeline: int) -> None:
        """Nobody has or wants anything; tokens are above those of earlier timelines."""
        self._first_token = 1 + (timeline << _TIMELINE_BITS)
        self._tables: dict[int, LockTable] = {}  # {part: its locks}

    def ask(
        self, message: Lock, trainer: str, ids: Int64s, now: float
    ) -> tuple[LockEffect, Grants]:
        """Ask for rows, or again: what the asker is told, and whose turn it is as well."""
        who = LockAsker(message.incarnation, message.number)
        rows = tuple(np.unique(ids).tolist())
        if len(rows) != len(ids):
            text = f"expected distinct rows, got {len(ids)} of which {len(rows)} differ"
            return LockRefused(who, text), []
        ask = LockAsk(who, trainer, rows, message.is_shared, message.lease_s)
        if message.part not in self._tables:
            self._tables[message.part] = LockTable(self._first_token)
        table = self._tables[message.part]
        *others, own = table.acquire(ask, now)
        return own, _granted(message.part, others)

    def let_go(self, key: LockKey, now: float) -> Grants:
        """A request is over."""
        table = self._tables.get(key.part)
        return [] if table is None else _granted(key.part, table.release(key.who, now))

    def keep(self, message: KeepLocks, now: float) -> None:
        """A trainer lives, and wants these."""
        for part, numbers in message.numbers.items():
            for number in numbers:
                if part in self._tables:
                    self._tables[part].renew(LockAsker(message.incarnation, number), now)

    def expire(self, now: float) -> Grants:
        """Leases that have run out."""
        return self._of_all({p: t.expire(now) for p, t in self._tables.items()})

    def fence(self, incarnation: int, now: float) -> Grants:
        """An incarnation is over."""
        return self._of_all({p: t.fence(incarnation, now) for p, t in self._tables.items()})

    def why_lost(self, push: Push, contents: PushContents) -> str | None:
        """Why the lock that a push is made under does not allow it; None if it does."""
        if push.token is None:
            return None
        table = self._tables.get(push.part)
        if table is None:
            return f"token {push.token} is of no lock of part {push.part}"
        ids = [one.ids for rows in contents.rows.values() for one in rows]
        written = tuple(np.unique(np.concatenate(ids)).tolist()) if ids else ()
        return table.why_not_written(push.token, push.incarnation, written)

    def bind(self, part: int, token: int | None) -> None:
        """The write under a lock waits for its step; see `LockTable.bind`."""
        if token is not None:
            self._tables[part].bind(token)

    def settle(self, part: int, token: int | None, now: float) -> Grants:
        """The write under a lock was decided: others may have the rows."""
        table = self._tables.get(part)
        if token is None or table is None:
            return []
        return _granted(part, table.settle(token, now))

    def _of_all(self, effects: Mapping[int, Iterable[LockEffect]]) -> Grants:
        return [key for part, some in effects.items() for key in _granted(part, some)]


def _granted(part: int, effects: Iterable[LockEffect]) -> Grants:
    return [LockKey(part, e.who) for e in effects if isinstance(e, LockGranted)]


@final
class HeldPushes:
    """Held pushes and locks of one timeline.

    Attributes:
        locks: who may change which rows.
        turns: requests for locks whose turn has come, until somebody answers them.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Nothing is held, nothing is locked."""
        self.locks = Locks(timeline=0)
        self.turns: Grants = []
        self._now_s = now_s
        self._contents: dict[tuple[int, int], PushContents] = {}  # {(part, incarnation)}

    def why_lost(self, push: Push, contents: PushContents) -> str | None:
        """Why the lock that a push is made under does not allow it; None if it does."""
        self.turns += self.locks.expire(self._now_s())
        return self.locks.why_lost(push, contents)

    def decided(self, push: Push, verdict: Verdict, contents: PushContents) -> None:
        """What was decided of a push: its lock is let go, or held with it."""
        if verdict == "hold":
            self._contents[push.part, push.incarnation] = contents
            self.locks.bind(push.part, push.token)
        elif verdict not in {"held", "repeat", "refuse"}:
            self.turns += self.locks.settle(push.part, push.token, self._now_s())

    def taking(
        self, state: ServerState, slots: Slots, steps: Steps
    ) -> tuple[Actions, list[tuple[int, int]]]:
        """Held pushes of committed steps act on the slots; whose: (incarnation, part)."""
        actions: Actions = {}
        whose = []
        for incarnation, step in steps.items():
            for part, held in state.steps().take(incarnation, step).items():
                contents = self._contents.pop((part, incarnation))
                actions |= slots.applying(part, contents, held.slots)
                self.turns += self.locks.settle(part, held.token, self._now_s())
                whose.append((incarnation, part))
        return actions, whose

    def drop(self, state: ServerState, incarnation: int, step: Mapping[int, int]) -> None:
        """Held pushes that will never be committed: their locks are let go."""
        for part, held in state.steps().drop(incarnation, step).items():
            del self._contents[part, incarnation]
            self.turns += self.locks.settle(part, held.token, self._now_s())

    def fence(self, incarnation: int) -> None:
        """An incarnation is over: what it holds never has an effect, its locks end."""
        for key in [key for key in self._contents if key[1] == incarnation]:
            del self._contents[key]
        self.turns += self.locks.fence(incarnation, self._now_s())

    def enter(self, timeline: int) -> None:
        """A timeline is entered: no step of the one before is committed any more."""
        self._contents.clear()
        self.locks = Locks(timeline)
        self.turns = []
