"""The locks of all parts of one server, and what of a request they have to do with.

Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

import numpy as np

from paceline.messages.data import Push
from paceline.messages.locking import KeepLocks, Lock
from paceline.server.locks.locks import (
    LockAsk,
    LockAsker,
    LockEffect,
    LockGranted,
    LockRefused,
    LockTable,
)
from paceline.server.requests.contents import Int64s, PushContents

_TIMELINE_BITS: Final = 40  # tokens of a timeline are counted below


class LockKey(NamedTuple):
    """A request for rows of a part."""

    part: int
    who: LockAsker


Grants = list[LockKey]


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

    def num_requests(self) -> int:
        """Requests that have or await rows."""
        return sum(table.num_requests() for table in self._tables.values())

    def _of_all(self, effects: Mapping[int, Iterable[LockEffect]]) -> Grants:
        return [key for part, some in effects.items() for key in _granted(part, some)]


def _granted(part: int, effects: Iterable[LockEffect]) -> Grants:
    return [LockKey(part, e.who) for e in effects if isinstance(e, LockGranted)]
