"""Who may change which rows: the locks of one part on one server.

::

    row 3   [A]  C              each row has a line of requests, first come, first served;
    row 7   [A]  B  C           a request is granted when it is first in the lines of all
    row 9   [B'] [D'] C         its rows (or behind shared ones only, if it is shared)

A request names all its rows at once and joins all lines in the same breath, so that any
two requests stand in the same order in every line they share: no circle can form, and
nobody is overtaken by who would delay it. Those of several servers ask one server after
the other, in one order.

A lock is leased. Whoever holds it is heard of now and then (`LockTable.renew`); when that
ends for the length of the lease, the lock is revoked and its token is good for nothing
more. Tokens only grow: each write says under which it was made (Kleppmann, "How to do
distributed locking", 2016; Burrows, "The Chubby lock service", OSDI 2006, 2.4). A write
that waits for a verdict from elsewhere keeps its lock until then (`LockTable.bind`).

Pure.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, final

MOST_REQUESTS: Final = 64  # of one incarnation, at one part of a server
MOST_IDS: Final = 1 << 20  # of one request
# Who waits asks again once a second; without that it has gone, whatever became of it.
PATIENCE_S: Final = 5.0
_MOST_TOLD: Final = 1024  # of revoked tokens, what became of them


class LockAsker(NamedTuple):
    """A request: its incarnation, and a number that grows with each of its requests."""

    incarnation: int
    number: int


class LockAsk(NamedTuple):
    """What is asked for; ``ids`` ascending and distinct, ``trainer`` for reasons."""

    who: LockAsker
    trainer: str
    ids: tuple[int, ...]
    is_shared: bool
    lease_s: float


class LockGranted(NamedTuple):
    """The request has its rows, under this token."""

    who: LockAsker
    token: int


class LockWaits(NamedTuple):
    """The request keeps its place; who is first before it, and since when it waits."""

    who: LockAsker
    reason: str
    first: str
    since_s: float


class Revoked(NamedTuple):
    """The request has its rows, or its place, no more."""

    who: LockAsker
    reason: str


class LockRefused(NamedTuple):
    """The request cannot be."""

    who: LockAsker
    reason: str


LockEffect = LockGranted | LockWaits | Revoked | LockRefused


@final
class _Request:
    """A request that has its rows or waits for them."""

    def __init__(self, ask: LockAsk, now: float) -> None:
        self.ask = ask
        self.token = 0  # 0: it waits
        self.num_blocked = 0  # lines in which somebody stands before it
        self.since_s = now
        self.until_s = now + PATIENCE_S
        self.is_bound = False
        self.crowded: set[int] = set()  # rows in whose lines others stand, too

    def alone(self) -> Iterable[int]:
        """Rows that nobody else has or wants."""
        if not self.crowded:
            return self.ask.ids
        return [row for row in self.ask.ids if row not in self.crowded]

    def grant(self, token: int, now: float) -> LockGranted:
        self.token, self.since_s = token, now
        self.until_s = now + self.ask.lease_s
        return LockGranted(self.ask.who, token)


@final
class LockTable:
    """The locks of one part on one server."""

    def __init__(self, first_token: int = 1) -> None:
        """Nobody has or wants anything; tokens grow from the first one on."""
        self._requests: dict[LockAsker, _Request] = {}
        # {id: in the order they came}; most rows have one request alone: no list for these
        self._lines: dict[int, _Request | list[_Request]] = {}
        self._held: dict[int, _Request] = {}  # {token: request}
        self._counts: dict[int, int] = {}  # {incarnation: its requests}
        self._over: dict[int, int] = {}  # {incarnation: highest number that was let go}
        self._next_token = first_token
        self._told: dict[int, str] = {}  # {revoked token: why}, the newest
        self._order: deque[int] = deque()  # of `_told`

    # ------------------------------------------------------------ events

    def acquire(self, ask: LockAsk, now: float) -> list[LockEffect]:
        """Ask for rows, or ask again: the place in the lines, and a grant, stay.

        The asker's own effect is the last.
        """
        effects = self.expire(now)
        known = self._requests.get(ask.who)
        refused = self._why_not(ask, known)
        if refused is not None:
            return [*effects, LockRefused(ask.who, refused)]
        request = known or self._join(ask, now)
        lasts_s = ask.lease_s if request.token else PATIENCE_S
        request.until_s = max(request.until_s, now + lasts_s)
        if request.token:
            return [*effects, LockGranted(ask.who, request.token)]
        if request.num_blocked == 0:
            return [*effects, self._grant(request, now)]
        return [*effects, self._waits(request, now)]

    def release(self, who: LockAsker, now: float) -> list[LockEffect]:
        """Let rows go, or a place; an unknown request changes nothing.

        A bound lock stays: what becomes of its write is for others to say.
        """
        request = self._requests.get(who)
        if request is not None and request.is_bound:
            return []
        self._over[who.incarnation] = max(who.number, self._over.get(who.incarnation, 0))
        return [] if request is None else self._remove([request], now)

    def renew(self, who: LockAsker, now: float) -> None:
        """Whoever asked lives; a request that is not known, or no more, stays so."""
        request = self._requests.get(who)
        if request is not None:
            lasts_s = request.ask.lease_s if request.token else PATIENCE_S
            request.until_s = max(request.until_s, now + lasts_s)

    def expire(self, now: float) -> list[LockEffect]:
        """Revoke what has run out; a bound lock does not."""
        gone = [r for r in self._requests.values() if r.until_s <= now and not r.is_bound]
        effects: list[LockEffect] = []
        for request in gone:
            ask = request.ask
            if request.token:
                reason = (
                    f"{ask.trainer} held {_named(ask.ids)} for {now - request.since_s:.1f} "
                    f"s and was not heard of for {ask.lease_s:g} s"
                )
                self._tell(request.token, reason)
            else:
                reason = f"{ask.trainer} did not ask again for {PATIENCE_S:g} s"
            effects.append(Revoked(ask.who, reason))
        effects += self._remove(gone, now)
        return effects

    def fence(self, incarnation: int, now: float) -> list[LockEffect]:
        """An incarnation is over: all it has, or waits for, goes to others."""
        gone = [r for w, r in self._requests.items() if w.incarnation == incarnation]
        effects: list[LockEffect] = []
        for request in gone:
            effects.append(Revoked(request.ask.who, f"{request.ask.trainer} is fenced"))
            if request.token:
                self._tell(request.token, f"{request.ask.trainer} was given up")
        effects += self._remove(gone, now)
        self._over.pop(incarnation, None)
        return effects

    def bind(self, token: int) -> None:
        """A write under this lock waits for its verdict: the lock outlasts its lease."""
        self._held[token].is_bound = True

    def settle(self, token: int, now: float) -> list[LockEffect]:
        """The write under this lock had its effect, or never will: the lock is let go."""
        request = self._held.get(token)
        if request is None:
            return []
        request.is_bound = False
        return self.release(request.ask.who, now)

    # ------------------------------------------------------------ questions

    def why_not_written(
        self, token: int, incarnation: int, ids: Sequence[int]
    ) -> str | None:
        """Why rows (ascending, distinct) may not be written under a token, if so."""
        request = self._held.get(token)
        if request is None or request.ask.who.incarnation != incarnation:
            return f"token {token} is out of date: {self._told.get(token, 'it was let go')}"
        ask = request.ask
        if ask.is_shared:
            return f"token {token} is of a shared lock, under which rows are only read"
        others = set() if ids == ask.ids else set(ids).difference(ask.ids)
        if others:
            return f"token {token} is of {_named(ask.ids)}, not of row {min(others)}"
        return None

    # ------------------------------------------------------------ lines

    def _why_not(self, ask: LockAsk, known: _Request | None) -> str | None:
        incarnation, number = ask.who
        if known is not None:
            is_same = (known.ask.ids, known.ask.is_shared) == (ask.ids, ask.is_shared)
            return None if is_same else f"lock {number} was asked for with other rows"
        if number <= self._over.get(incarnation, 0):
            return f"lock {number} of {ask.trainer} is over"
        if not 0 < len(ask.ids) <= MOST_IDS:
            return f"expected 1 to {MOST_IDS} rows in a lock, got {len(ask.ids)}"
        if self._counts.get(incarnation, 0) >= MOST_REQUESTS:
            return f"{ask.trainer} has {MOST_REQUESTS} locks already: let some go first"
        return None

    def _join(self, ask: LockAsk, now: float) -> _Request:
        """Stand at the end of the lines of all rows."""
        request = self._requests[ask.who] = _Request(ask, now)
        incarnation = ask.who.incarnation
        self._counts[incarnation] = self._counts.get(incarnation, 0) + 1
        lines = self._lines
        if not lines.keys().isdisjoint(ask.ids):
            crowded = request.crowded = lines.keys() & set(ask.ids)
            for row in crowded:
                line = lines[row]
                if isinstance(line, list):
                    line.append(request)
                else:
                    line.crowded.add(row)
                    lines[row] = line = [line, request]
                request.num_blocked += _num_clear(line) < len(line)
        self._lines.update(dict.fromkeys(request.alone(), request))
        return request

    def _crowd(self, row: int) -> list[_Request]:
        """The line of a row that several want."""
        line = self._lines[row]
        assert isinstance(line, list), f"row {row} is wanted by one alone"
        return line

    def _grant(self, request: _Request, now: float) -> LockGranted:
        granted = request.grant(self._next_token, now)
        self._held[granted.token] = request
        self._next_token += 1
        return granted

    def _remove(self, gone: Iterable[_Request], now: float) -> list[LockEffect]:
        """Leave all lines; who stands first now, everywhere, is granted."""
        freed: list[_Request] = []
        for request in gone:
            who = request.ask.who
            del self._requests[who]
            self._held.pop(request.token, None)
            self._counts[who.incarnation] -= 1
            if not self._counts[who.incarnation]:
                del self._counts[who.incarnation]
            alone = request.alone()
            for row in sorted(request.crowded):
                freed += self._leave(request, row)
            for row in alone:
                del self._lines[row]
        return [
            self._grant(request, now)
            for request in freed
            if request.ask.who in self._requests  # else it went as well
        ]

    def _leave(self, request: _Request, row: int) -> list[_Request]:
        """Leave one line; who stands behind nobody any more, in any line."""
        line = self._crowd(row)
        if len(line) == 2:
            first, second = line
            other = second if first is request else first
            self._lines[row] = other
            other.crowded.remove(row)
            is_clear = other is first or _num_clear(line) == 2
            other.num_blocked -= not is_clear
            return [] if is_clear or other.num_blocked else [other]
        clear = set(line[: _num_clear(line)])
        line.remove(request)
        freed = []
        for other in line[: _num_clear(line)]:
            if other not in clear:
                other.num_blocked -= 1
                if other.num_blocked == 0:
                    freed.append(other)
        return freed

    def _waits(self, request: _Request, now: float) -> LockWaits:
        for row in sorted(request.crowded):
            line = self._crowd(row)
            if line.index(request) >= _num_clear(line):
                first = line[0]
                has = "holds" if first.token else "waits before it for"
                more = line.index(request) - 1
                text = (
                    f"{first.ask.trainer} {has} row {row} since {now - first.since_s:.1f} s"
                )
                text += f", {more} more stand between" if more else ""
                return LockWaits(request.ask.who, text, first.ask.trainer, request.since_s)
        raise AssertionError(f"{request.ask.who} waits for nobody")

    def _tell(self, token: int, reason: str) -> None:
        self._told[token] = reason
        self._order.append(token)
        if len(self._order) > _MOST_TOLD:
            del self._told[self._order.popleft()]


def _num_clear(line: list[_Request]) -> int:
    """How many at the head of a line may have its row at once."""
    if not line[0].ask.is_shared:
        return 1
    return next((i for i, r in enumerate(line) if not r.ask.is_shared), len(line))


def _named(ids: tuple[int, ...]) -> str:
    return f"row {ids[0]}" if len(ids) == 1 else f"rows {ids[0]} to {ids[-1]} ({len(ids)})"
