"""Rows that one trainer has for itself: what `Table.lock` returns.

A lock in the block of another one, on a table made later, belongs to the same step: all
that was changed is written when the outermost block ends, on all servers or on none.
Tables have one order, and so have servers: no two trainers wait for each other.

Inside a loop what a block writes is the batch's push to these tables, stamped with its
window. Outside of a loop it is known by the trainer's incarnation and a number.

Waits: for servers, and for whoever has the rows, with a deadline. The thread of the user's
script calls.
"""

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, final

import numpy as np

from paceline.errors import LockLost, PacelineError, Refused, UsageError
from paceline.messages.locking import Lock, Locked
from paceline.messages.shared import Message
from paceline.pace.tables import why_not_locked
from paceline.params.rows import Array, Int64s
from paceline.trainer.acts import Act
from paceline.trainer.client import HeldLock, Payload
from paceline.trainer.holdings import SharedPart, Writing
from paceline.trainer.loop import step_whole
from paceline.trainer.membership import Membership
from paceline.trainer.protocol import let_go, push_alone_together, take_locks
from paceline.trainer.rows import TableRows
from paceline.trainer.rows.routing import Piece, Route
from paceline.transport.frames import WritableBuffer

LEAST_LEASE_S: Final = 2.0  # signs of life come every half second
MOST_LEASE_S: Final = 3600.0
_AGAIN: Final = "take the lock again and compute anew from the rows as they are then"


@final
class LockedRows:
    """Rows under a lock.

    Attributes:
        ids: int64 (n,), as they were asked for.
        values: (n, ...), in the same order; under a shared lock they cannot be changed.
        tokens: int64 (n,), which grow with every lock of a row; for what lies elsewhere and
            is to refuse whoever has lost its lock.
    """

    def __init__(self, ids: Int64s, values: Array, tokens: Int64s) -> None:
        self.ids, self.values, self.tokens = ids, values, tokens


class Wish(NamedTuple):
    """How a lock is wished for."""

    is_shared: bool
    timeout_s: float
    lease_s: float

    def check(self) -> None:
        """Refuse what is out of range.

        Raises:
            UsageError: what, and what is expected.
        """
        if not self.timeout_s >= 0:
            raise UsageError(f"lock: expected timeout_s >= 0, got {self.timeout_s}")
        if not LEAST_LEASE_S <= self.lease_s <= MOST_LEASE_S:
            raise UsageError(
                f"lock: expected lease_s between {LEAST_LEASE_S:g} and {MOST_LEASE_S:g} "
                f"seconds, got {self.lease_s}"
            )


@final
class RowLock:
    """A block under a lock; enter it once."""

    def __init__(
        self,
        rows: TableRows,
        ids: Int64s,
        wish: Wish,
        membership: Membership,
    ) -> None:
        self.rows, self.part = rows, rows.part
        self._ids, self._wish = ids, wish
        self._carrier, self._calls = membership.carrier, membership.calls
        self._keeper = membership.driver.locks
        self.is_shared = wish.is_shared
        self.tokens: dict[str, int] = {}  # {server: token}
        self.locked: LockedRows | None = None  # until the block has failed
        self._locks: dict[str, Lock] = {}  # {server: what was asked}
        self._held: HeldLock | None = None
        self._before: Array = np.empty(0)

    def __enter__(self) -> LockedRows:
        """Wait for the rows.

        Raises:
            LockTimeout: others have had them all the time; who.
            UsageError: a lock cannot be had here, and why.
        """
        if self.locked is not None:
            raise UsageError("lock: a block is entered once; call table.lock(ids) again")
        self._check_nest()
        self._carrier.protocol.parts[self.part].lock_number += 1
        try:
            values, tokens = self._wait_locked()
        except BaseException:
            self._keep_no_more()
            raise
        values.flags.writeable = not self.is_shared
        self._before = values.copy()
        self.locked = LockedRows(self._ids, values, tokens)
        self._calls.locks.append(self)
        return self.locked

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what has changed, with what blocks within have, and let the rows go.

        Raises:
            LockLost: the lock ended before; nothing was written.
        """
        del kind, trace
        nest = self._nest()
        if error is not None:
            self._end(nest[nest.index(self) :])
        elif nest[0] is self:
            try:
                self._write([lock for lock in nest if not lock.is_shared])
            finally:
                self._end(nest)

    def _nest(self) -> "list[RowLock]":
        return [lock for lock in self._calls.locks if isinstance(lock, RowLock)]

    def _check_nest(self) -> None:
        name, nest = self.rows.spec.name, self._nest()
        pace = self._carrier.protocol.parts[self.part].spec.pace
        if (reason := why_not_locked(pace)) is not None:
            raise UsageError(f"lock: table {name!r}: {reason}")
        if nest and nest[-1].part >= self.part:
            raise UsageError(
                f"lock: table {name!r} is locked in the block of a lock on "
                f"{nest[-1].rows.spec.name!r}: lock tables in the order in which they were "
                f"made, each once, so that no two trainers wait for each other"
            )
        if self._calls.open_call is None or self.is_shared:
            return
        if self.rows.has_written():
            raise UsageError(
                f"lock: this batch has pushed to table {name!r} already: lock the rows "
                f"before, or let a batch do the one or the other"
            )
        protocol = self._carrier.protocol
        part = protocol.parts[self.part]
        if not (protocol.must_join or part.forgotten or part.window.has_delivered()):
            raise UsageError(
                f"lock: the batch is over for table {name!r}: what a block writes is its "
                f"push, and a batch has one; take all rows in one lock, or smaller batches"
            )

    def _wait_locked(self) -> tuple[Array, Int64s]:
        route, inverse = self.rows.route(self._ids)
        combine = self.rows.combine
        values = np.empty((len(route.ids), self.rows.spec.dim), combine.dtype)
        if len(self._ids):
            carrier = self._carrier
            payloads = {p.server: _payload(route, p, values) for p in route.pieces}
            self.tokens = carrier.run(
                carrier.protocol.as_member(lambda: self._take(route)),
                lambda role, message: (
                    payloads[role]._replace(message=message)
                    if isinstance(message, Lock)
                    else None
                ),
            )
        tokens = np.zeros(len(route.ids), np.int64)
        for piece in route.pieces:
            tokens[piece.start : piece.stop] = self.tokens[piece.server]
        shape = (len(self._ids), *combine.shape)
        return values[inverse].reshape(shape), tokens[inverse]

    def _take(self, route: Route) -> Act[dict[str, int]]:
        protocol = self._carrier.protocol
        asking, number = protocol.asking, protocol.parts[self.part].lock_number
        wish = self._wish
        self._keep_no_more()
        self._locks = {
            piece.server: Lock(
                **asking.who(),
                part=self.part,
                number=number,
                rows=piece.slots,
                is_shared=wish.is_shared,
                lease_s=wish.lease_s,
            )
            for piece in route.pieces
        }
        who, servers = asking.who(), tuple(self._locks)
        self._held = HeldLock(**who, part=self.part, number=number, servers=servers)
        self._keeper.keep(self._held)
        return (yield from take_locks(asking, self._locks, wish.timeout_s))

    def _end(self, locks: "Sequence[RowLock]") -> None:
        """These blocks are over: whatever is locked still is let go."""
        for lock in locks:
            self._calls.locks.remove(lock)
            lock.end()

    def end(self) -> None:
        """Let the rows go, if they are not yet; nothing is raised."""
        self._keep_no_more()
        if not self.tokens or not self._is_current():
            return
        self.tokens = {}
        protocol = self._carrier.protocol
        act = protocol.as_member(lambda: let_go(protocol.asking, self._locks))
        with contextlib.suppress(PacelineError):  # it runs out by itself
            self._carrier.run(act)

    def _keep_no_more(self) -> None:
        if self._held is not None:
            self._keeper.let_go(self._held)
            self._held = None

    def _is_current(self) -> bool:
        """Whether the trainer is the member that it was when it was given the rows."""
        asking = self._carrier.protocol.asking
        return all(
            (lock.incarnation, lock.timeline) == (asking.incarnation, asking.timeline)
            for lock in self._locks.values()
        )

    def _write(self, locks: "Sequence[RowLock]") -> None:
        changed = [lock for lock in locks if lock.tokens]
        for lock in changed:
            lock.check_values()
        if not changed:
            return
        for lock in changed:
            lock.load()
        is_alone = self._calls.open_call is None
        write = self._write_alone if is_alone else self._write_batch
        if write(changed):
            for lock in changed:
                lock.tokens = {}  # let go with the write

    def check_values(self) -> None:
        """Refuse values that are not the rows' own shape, or not finite.

        Raises:
            UsageError: what is wrong with them.
        """
        assert self.locked is not None, "a block has rows"
        name, values, dtype = (
            self.rows.spec.name,
            self.locked.values,
            self.rows.combine.dtype,
        )
        wanted = (len(self._ids), *self.rows.combine.shape)
        if values.shape != wanted or values.dtype != np.dtype(dtype):
            raise UsageError(
                f"lock: expected values of table {name!r} as {dtype} {wanted}, got "
                f"{values.dtype} {values.shape}: change them in place"
            )
        changed = values[self._changed()]
        if values.dtype.kind == "f" and not np.isfinite(changed).all():
            raise UsageError(f"lock: values of table {name!r} are not finite")

    def load(self) -> None:
        """Make the rows ready to be pushed."""
        assert self.locked is not None, "a block has rows"
        changed = self._changed()
        values = self.locked.values[changed].reshape(-1, self.rows.spec.dim)
        if len(values):
            self.rows.write(self._ids[changed], values, "replace")

    def _changed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows (n,) the block has changed; only these travel."""
        assert self.locked is not None, "a block has rows"
        differs = np.not_equal(self.locked.values, self._before)
        by_row = differs.reshape(len(self._ids), self.rows.spec.dim)
        return np.asarray(by_row.any(axis=1), np.bool_)

    def _write_batch(self, locks: "Sequence[RowLock]") -> bool:
        """As the push of the batch; false if the batch is gone, which is warned of."""
        try:
            tokens = {lock.part: lock.tokens for lock in locks}
            return step_whole(self._carrier, tokens).verdict == "pushed"
        except Refused as refused:
            raise _lost(refused, locks) from refused

    def _write_alone(self, locks: "Sequence[RowLock]") -> bool:
        carrier, protocol = self._carrier, self._carrier.protocol
        parts: dict[SharedPart, Writing] = {}
        for lock in locks:
            carrier.tables[lock.part].load(carrier.plan(lock.part))
            parts[protocol.parts[lock.part]] = Writing(lock.tokens)
        tries = 0

        def push() -> Act[bool]:
            nonlocal tries
            tries += 1
            if tries > 1 or not self._is_current():
                return False
            yield from push_alone_together(protocol.asking, parts)
            return True

        try:
            is_written = carrier.run(protocol.as_member(push))
        except Refused as refused:
            raise _lost(refused, locks) from refused
        finally:
            for lock in locks:
                carrier.tables[lock.part].clear()
        if not is_written:
            raise LockLost(
                f"lock of {_named(locks)}: all have returned to a cut, or this trainer was "
                f"given up, and has joined again: {_AGAIN}",
                may_be_written=tries > 1,
            )
        return True


def _lost(refused: Refused, locks: Sequence[RowLock]) -> PacelineError:
    if refused.kind != "lock_lost":
        return refused
    return LockLost(f"lock of {_named(locks)}: {refused}; nothing was written: {_AGAIN}")


def _named(locks: Sequence[RowLock]) -> str:
    return ", ".join(f"table {lock.rows.spec.name!r}" for lock in locks)


def _payload(route: Route, piece: Piece, values: Array) -> Payload:
    """The ids of one server's rows, and where their values land."""
    here = slice(piece.start, piece.stop)
    place: WritableBuffer = values[here]

    def land(reply: object, _: Sequence[int]) -> Sequence[WritableBuffer]:
        return [place] if isinstance(reply, Locked) else []

    message = Message()
    return Payload(message, [route.ids[here]], land, [values[here].nbytes])
