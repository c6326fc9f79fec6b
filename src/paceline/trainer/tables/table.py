"""What the user holds of a table: `Session.table` returns a `Table`.

Waits: for servers. The thread of the user's script calls.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from paceline.errors import UsageError
from paceline.ids import OF_NO_BATCH
from paceline.messages.data import Push
from paceline.params.rows import Array, Int64s
from paceline.trainer.acts import Act
from paceline.trainer.loop import Stages, has_batch, step_atomic
from paceline.trainer.membership import Membership
from paceline.trainer.peers import CollectiveCall, How, Kind, Operation, Slice, check_call
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.rows import Replica, TableRows
from paceline.trainer.tables.arguments import (
    Ids,
    Values,
    as_array,
    checked_ids,
    checked_values,
)
from paceline.trainer.tables.locks import RowLock, Wish
from paceline.trainer.tables.rotation import Cell, rotate
from paceline.trainer.tables.rotation_plan import KnownCells, Rotate

_LOCK_INSTEAD: Final = (
    "a lock block says the same, on the latest values: `with table.lock(ids) as rows: "
    "rows.values[...] = compute(rows.values)`"
)


@final
class Table:
    """Rows that algorithms change themselves: dense, or keyed by any int64 id.

    ``shape``: (rows, ...) of a dense table, (None, ...) of a keyed one. ``dtype``: numpy's.
    """

    def __init__(
        self,
        membership: Membership,
        stages: Stages,
        rows: TableRows,
        replicate_every: int | None,
    ) -> None:
        combine = rows.combine
        self.name = rows.spec.name
        self.shape = (combine.num_rows, *combine.shape)
        self.dtype = np.dtype(combine.dtype)
        self._rows, self._known = rows, KnownCells()
        self._membership, self._stages = membership, stages
        self._carrier, self._calls = membership.carrier, membership.calls
        if replicate_every is not None:
            whose = self._carrier.protocol, membership.driver, self._is_in_loop
            rows.replica = Replica(rows.part, replicate_every, *whose)

    def pull(self, ids: Ids = None, *, versions: bool = False) -> Array:
        """Rows as they are on the servers now, with what this batch has pushed so far.

        Nothing waits for anybody's pushes, and no row is made: one that nobody has written
        reads as it would begin. In a loop, a replicated table is read from a copy.

        Args:
            ids: whole numbers (n,), in any order, repeated or not; None: all rows of a
                dense table.
            versions: given up, and refused with what to write instead.

        Returns:
            The caller's own array (n, ...), of the table's dtype.

        Raises:
            UsageError: an id is none of a dense table's rows; or None of a keyed table.
        """
        if versions:
            raise UsageError(f"pull: versions are given up: {_LOCK_INSTEAD}")
        found = self._rows.read(self._ids(ids))
        return found.reshape(len(found), *self._rows.combine.shape)

    def push(self, ids: Ids, values: Values, *, if_version: object = None) -> None:
        """Combine values with rows by the table's rule: each exactly once, whoever dies.

        Inside a loop over `Session.batches` they leave when the batch is over, together:
        they belong to the batch, and the batch counts when servers have them. Outside of
        one they leave at once and have their effect at most once; what a return to a cut
        undoes is not pushed again.

        Args:
            ids: as in `pull`; values of equal ids are combined first.
            values: (n, ...), or one row for all of them.
            if_version: given up, and refused with what to write instead.

        Raises:
            UsageError: ids or values are not the table's; the rule is ``replace``, which
                needs a right to the rows; or the batch has been flushed.
        """
        rule = self._rows.combine.rule
        if if_version is not None:
            raise UsageError(f"push: if_version is given up: {_LOCK_INSTEAD}")
        if rule == "replace":
            raise UsageError(
                f"push: rows of {self.name!r} are replaced, and nobody else may change "
                f"them meanwhile: use table.lock(ids) or table.rotate(...)"
            )
        self._check_push()
        checked = self._ids(ids)
        row = self._rows.combine.shape
        found = checked_values(self.name, row, self.dtype, values, len(checked))
        self._rows.write(checked, found, rule)
        if not self._is_in_loop():
            self._write_alone()

    def lock(
        self,
        ids: Ids,
        *,
        shared: bool = False,
        timeout_s: float = 60.0,
        lease_s: float = 10.0,
    ) -> RowLock:
        """Rows that nobody else changes meanwhile: ``with table.lock(ids) as rows:``.

        ``rows.values`` (n, ...) is the latest there is. What the block makes of it,
        whatever the table's rule, is written when it ends, and the rows are let go with it;
        a block that raises writes nothing. Who comes first is served first, and nobody
        waits in a circle: a lock in the block of another must be on a table that was made
        later, and all blocks are then written as one, on all servers or on none.

        In a loop the write is the batch's push to the table, and it has one: its effect is
        there once, whoever dies. Which rows a batch locks must follow from the batch.
        Outside of a loop it is there at most once.

        Args:
            ids: whole numbers (n,), each once, in any order; None: all rows of a dense
                table.
            shared: only read, beside others who do.
            timeout_s: how long to wait for others.
            lease_s: for how long a trainer that is frozen keeps its rows from others.

        Raises:
            LockTimeout: on entering: others have had rows all the time.
            LockLost: at the end: the lock was lost before, and nothing is written; take it
                again. Inside a loop, not if the batch itself is gone: that is warned of.
            UsageError: an id is repeated; the batch has pushed to the table already; or the
                table's pace lets pushes wait.
        """
        wish = Wish(shared, timeout_s, lease_s)
        wish.check()
        self._rows.require_latest("lock")
        checked = self._ids(ids)
        if len(np.unique(checked)) != len(checked):
            raise UsageError(f"lock: expected each id of table {self.name!r} once")
        return RowLock(self._rows, checked, wish, self._membership)

    def rotate(  # noqa: PLR0913  (the public signature; all but two are named)
        self,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        by: Ids,
        *,
        group: Ids = None,
        parts: int | None = None,
        batch_size: int | None = None,
        epochs: int = 1,
        seed: int = 0,
        step_s: float | None = None,
        slices: int = 2,
    ) -> Iterator[Cell]:
        """A loop in which blocks of this table go round, each at one trainer at a time.

        The data are cut into parts, rows into blocks. A `Cell` is what a data part has to
        do with one block: in a round (an epoch) each is delivered once, to whoever keeps
        the data part, and nobody else has either meanwhile. Its ``rows`` are the block's,
        to be changed in place; they are its new values when the next cell is asked for,
        with all that was pushed to other tables: exactly once, whoever dies. Cells come in
        a seeded order, another one each round, and every block goes over the data parts in
        that order: the same bits for any number of trainers, whoever dies.

        A ``break`` hands the open cell back, with what was changed in it dropped.

        Args:
            dataset: as for `Session.batches`.
            by: whole numbers (n,), for each record the row that it touches.
            group: whole numbers (n,): records of equal ones lie in one data part; None:
                parts are ranges of records.
            parts: data parts, at most that many trainers work at once; None: blocks /
                slices.
            batch_size: records of a batch of a cell; None: a cell is one batch.
            epochs: rounds.
            seed: of their orders.
            step_s: seconds after which a cell is left, after a whole batch; what is left is
                trained when its block comes again, in the same round.
            slices: cells that a trainer may hold: with 2 the next one's block travels while
                one is computed, with 1 nothing overlaps.

        Raises:
            UsageError: the table is keyed, an argument is out of range or does not fit the
                data, or another loop is open.
            JobFailed: while iterating, the job as a whole cannot go on.
        """
        self._rows.require_latest("rotate")
        wanted = Rotate(by, group, parts, batch_size, epochs, seed, step_s, slices)
        return rotate(
            self._membership, self._stages, self._rows, self._known, dataset, wanted
        )

    def flush(self) -> None:
        """End the batch for this table: what it has pushed leaves, and the batch counts.

        For the last batch before a ``break``: what a loop is left with is handed back.

        Raises:
            UsageError: blocks of the table go round.
        """
        if self._rows.is_rotating:
            raise UsageError(
                f"flush: blocks of {self.name!r} go round, and a cell is over when the "
                f"next one is asked for"
            )
        carrier, part = self._carrier, self._rows.part
        if not (self._is_in_loop() and self._has_batch()):
            return
        if carrier.tables[part].manner.is_atomic:
            step_atomic(carrier)
        else:
            carrier.step(part)

    def allreduce(
        self, *values: Values, rule: str | None = None, how: How = "auto"
    ) -> tuple[Array, ...] | Any:  # noqa: ANN401  (one array for one)
        """Reduce values of all trainers with work: the same bits on each of them.

        The step of the batch: it counts when the round of exactly these trainers is
        committed. Who is lost before is in no result, and its batch goes to another; the
        others exchange again what they hold. The table's own rows do not change, but by
        ``"push+pull"``. Whatever you keep of the result from batch to batch,
        `Session.track` it: so trainers that join, or had no batch for a while, have it as
        the others do.

        Args:
            values: arrays of any shape and dtype of numbers, the same on every trainer.
            rule: ``"add"``, ``"max"`` or ``"min"``; None: the table's own.
            how: ``"allreduce"``: one hop, everybody asks everybody;
                ``"regroup+allgather"``: two, of fewer bytes; ``"auto"``: one of these, by
                size; ``"push+pull"``: servers reduce one array of the table's own shape and
                dtype, by its own rule, and its rows are the result.

        Returns:
            The reduced array, or a tuple of them; the caller's own.

        Raises:
            UsageError: outside of a loop, or the batch is over; the pace has no rounds of
                all; or other trainers have made another call, which is named.
            JobFailed: the job as a whole cannot go on.
        """
        made = self._exchange("allreduce", values, rule, how)
        return made.results[0] if len(values) == 1 else tuple(made.results)

    def reduce(self, values: Values, root: str | None = None) -> Array | None:
        """As `allreduce`, for one trainer: ``root``, or the first of the round.

        Returns:
            The reduced array there; None on all others.
        """
        made = self._exchange("reduce", [values], None, "auto", root)
        return made.results[0] if made.results else None

    def regroup(self, values: Values) -> tuple[Array, Slice]:
        """As `allreduce`, but each trainer gets a slice of the rows of the result.

        Returns:
            This trainer's rows of the result, and which they are.
        """
        made = self._exchange("regroup", [values], None, "auto")
        return made.results[0], made.rows[0]

    def allgather(self, values: Values) -> list[Array]:
        """What each trainer with work has brought, in an order that all of them share.

        The step of the batch, as `allreduce`. Shapes may differ.
        """
        made = self._exchange("allgather", [values], None, "auto")
        return [arrays[0] for arrays in made.gathered]

    def broadcast(self, values: Values, root: str | None = None) -> Array:
        """What one trainer has brought: ``root``, or the first of the round.

        The step of the batch, as `allreduce`. All bring values of one shape.
        """
        return self._exchange("broadcast", [values], None, "auto", root).results[0]

    def _exchange(
        self,
        kind: Kind,
        values: Sequence[Values],
        rule: str | None,
        how: How,
        root: str | None = None,
    ) -> CollectiveCall:
        # No copy: the caller waits here, and when the round is committed all have them.
        arrays = [np.ascontiguousarray(as_array(one)) for one in values]
        rule = rule or self._rows.combine.rule
        operation = Operation(self.name, kind, rule, how, root)
        rows = self._rows
        check_call(operation, arrays, rows.combine, has_pushed=rows.has_written())
        return self._membership.collectives.run(rows.part, operation, arrays)

    def _check_push(self) -> None:
        if self._is_in_loop() and not self._has_batch():
            raise UsageError(
                f"push: the batch is over for table {self.name!r}: push before flush(), in "
                f"the body of the loop"
            )
        if self._rows.is_rotating:
            raise UsageError(
                f"push: blocks of {self.name!r} go round, and each is one trainer's: "
                f"change cell.rows, in place"
            )

    def _ids(self, ids: Ids) -> Int64s:
        return checked_ids(self.name, self.shape[0], ids)

    def _is_in_loop(self) -> bool:
        return self._calls.open_call is not None

    def _has_batch(self) -> bool:
        """Whether a batch is in the user's hands that a push would belong to."""
        protocol = self._carrier.protocol
        return protocol.must_join or has_batch(protocol.parts[self._rows.part])

    def _write_alone(self) -> None:
        """What was written leaves as a push of no batch."""
        carrier, part = self._carrier, self._rows.part
        table = carrier.tables[part]
        is_finite = table.load(carrier.plan(part)).is_finite
        lost = carrier.run(_push_alone(carrier.protocol, part)) if is_finite else None
        table.clear()
        if not is_finite:
            carrier.warn_once("push: values are not finite: nothing was pushed")
        elif lost is not None:
            carrier.warn_once(f"push outside of a loop dropped: {lost}")

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.shape}, {self.dtype})"


def _push_alone(protocol: TrainerProtocol, number: int) -> Act[str | None]:
    """Push to a table without a batch, once: its number in this incarnation names it.

    Returns:
        Why it has had no effect that lasts; None if it has.
    """
    part, asking = protocol.parts[number], protocol.asking
    is_tried = False

    def push() -> Act[str | None]:
        nonlocal is_tried
        if is_tried:
            return "what it was pushed to is gone, or has returned to a cut"
        is_tried = True
        part.number += 1
        message = Push(
            **asking.who(),
            part=number,
            number=part.number,
            window=OF_NO_BATCH,
            records=0,
        )
        yield from asking.ask_servers(dict.fromkeys(protocol.servers, message))
        return None

    return (yield from protocol.as_member(push))
