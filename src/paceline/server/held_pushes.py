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
from paceline.server.locks import (
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


Steps = Mapping[int, Mapping[int, int]]  # {incarnation: {part: committed push}}


@final
class HeldPushes:
    """All locks of one server, and pushes that are held; they end with their timeline.

    Attributes:
        turns: requests for locks whose turn has come, until somebody answers them.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Nothing is held, nothing is locked; all times are by ``now_s``."""
        self.turns: list[LockKey] = []
        self._now_s = now_s
        self._tables: dict[int, LockTable] = {}  # {part: its locks}
        self._first_token = 1
        self._contents: dict[tuple[int, int], PushContents] = {}  # {(part, incarnation)}

    # ------------------------------------------------------------ locks

    def ask(self, message: Lock, trainer: str, ids: Int64s) -> LockEffect:
        """Ask for rows, or again: what the asker is told."""
        who = LockAsker(message.incarnation, message.number)
        rows = tuple(np.unique(ids).tolist())
        if len(rows) != len(ids):
            text = f"expected distinct rows, got {len(ids)} of which {len(rows)} differ"
            return LockRefused(who, text)
        ask = LockAsk(who, trainer, rows, message.is_shared, message.lease_s)
        if message.part not in self._tables:
            self._tables[message.part] = LockTable(self._first_token)
        *others, own = self._tables[message.part].acquire(ask, self._now_s())
        self._granted(message.part, others)
        return own

    def let_go(self, key: LockKey) -> None:
        """A request is over."""
        if key.part in self._tables:
            self._granted(key.part, self._tables[key.part].release(key.who, self._now_s()))

    def keep(self, message: KeepLocks) -> None:
        """A trainer lives, and wants these."""
        for part, numbers in message.numbers.items():
            for number in numbers:
                if part in self._tables:
                    who = LockAsker(message.incarnation, number)
                    self._tables[part].renew(who, self._now_s())

    def expire(self) -> None:
        """Leases that have run out end."""
        for part, table in self._tables.items():
            self._granted(part, table.expire(self._now_s()))

    def why_lost(self, push: Push, contents: PushContents) -> str | None:
        """Why the lock that a push is made under does not allow it; None if it does."""
        self.expire()
        if push.token is None:
            return None
        table = self._tables.get(push.part)
        if table is None:
            return f"token {push.token} is of no lock of part {push.part}"
        ids = [one.ids for one in contents.rows]
        written = tuple(np.unique(np.concatenate(ids)).tolist()) if ids else ()
        return table.why_not_written(push.token, push.incarnation, written)

    def settle(self, part: int, token: int | None) -> None:
        """The write under a lock was decided: others may have the rows."""
        if token is not None and part in self._tables:
            self._granted(part, self._tables[part].settle(token, self._now_s()))

    def _granted(self, part: int, effects: Iterable[LockEffect]) -> None:
        self.turns += [LockKey(part, e.who) for e in effects if isinstance(e, LockGranted)]

    # ------------------------------------------------------------ held pushes

    def decided(self, push: Push, verdict: Verdict, contents: PushContents) -> None:
        """What was decided of a push: its lock is let go, or held with it."""
        if verdict == "hold":
            self._contents[push.part, push.incarnation] = contents
            if push.token is not None:
                self._tables[push.part].bind(push.token)
        elif verdict not in {"held", "repeat", "refuse"}:
            self.settle(push.part, push.token)

    def taking(
        self, state: ServerState, slots: Slots, steps: Steps
    ) -> list[tuple[int, int, Actions]]:
        """Held pushes of committed steps act on slots: (incarnation, part, its actions)."""
        taken = []
        for incarnation, step in steps.items():
            for part, held in state.take_step(incarnation, step).items():
                contents = self._contents.pop((part, incarnation))
                actions = slots.applying(part, contents, held.slots)
                self.settle(part, held.token)
                taken.append((incarnation, part, actions))
        return taken

    def drop(self, state: ServerState, incarnation: int, step: Mapping[int, int]) -> None:
        """Held pushes that will never be committed: their locks are let go."""
        for part, held in state.drop_step(incarnation, step).items():
            del self._contents[part, incarnation]
            self.settle(part, held.token)

    def fence(self, incarnation: int) -> None:
        """An incarnation is over: what it holds never has an effect, its locks end."""
        for key in [key for key in self._contents if key[1] == incarnation]:
            del self._contents[key]
        for part, table in self._tables.items():
            self._granted(part, table.fence(incarnation, self._now_s()))

    def enter(self, timeline: int) -> None:
        """A timeline is entered: no step of the one before is committed any more.

        Tokens are above those of earlier timelines.
        """
        self._contents, self._tables, self.turns = {}, {}, []
        self._first_token = 1 + (timeline << _TIMELINE_BITS)
