"""A loop over the cells of a rotation: blocks in, changed blocks out.

::

    cell k        its rows are here; the user computes
                  meanwhile, in a thread: the lease on cell k + 1, and its rows
    cell k + 1    asked for: all that cell k has pushed leaves, then its rows; the
                  coordinator is told, and the next trainer may have its block

Rows go home with the window of the cell's batches, as whole rows: nobody else has them.
What was pushed to other tables meanwhile goes with them, as one step: all of it has its
effect, or nothing (`paceline.trainer.protocol.tables`).

Waits: for the coordinator, the data set, servers, and whoever has the block that comes
next. The thread of the user's loop calls.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Any, final

import numpy as np

from paceline.data.cells import Cells
from paceline.errors import Preempted, UsageError
from paceline.ids import TaskKey
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import StageSpec
from paceline.params.rows import Array, Int64s
from paceline.trainer.holdings import Writing
from paceline.trainer.loop import Cutting, Stage, Stages, leaving_anyhow, run_stage
from paceline.trainer.membership import Membership
from paceline.trainer.protocol import StandingThen
from paceline.trainer.rows import TableRows
from paceline.trainer.tables.rotation_peers import PeerBlocks
from paceline.trainer.tables.rotation_plan import (
    KnownCells,
    Rotate,
    check_rotate,
    describe_rotation,
)
from paceline.trainer.tables.rotation_prefetch import LookAhead
from paceline.trainer.verdicts import Batch, Flush, Leaving, Over

_log = logging.getLogger("paceline.trainer")


@final
class Cell:
    """One data part's records that touch one block of the table, and the block's rows.

    Nobody else has this block or this data part meanwhile. When the loop asks for the next
    cell, `rows` are the block's new values, together with all that was pushed to other
    tables: exactly once, whoever dies.

    Attributes:
        part: the data part.
        block: the block of the table.
        ids: int64 (m,), the rows of the block: a range, ascending.
        rows: (m, ...), their values, of the table's dtype; change them in place.
        positions: int64 (n,), the records of this visit, ascending; may be none.
        is_new_part: what this trainer knows of the data part from before, if anything, is
            out of date: another one has had it since, or what it did was lost.
        waited_s: how long this trainer has waited for the cell and its rows.
    """

    def __init__(  # noqa: PLR0913  (plain fields, each named)
        self,
        *,
        part: int,
        block: int,
        ids: Int64s,
        rows: Array,
        positions: Int64s,
        read: Callable[[Int64s], Any],
        batch_size: int,
        is_new_part: bool,
        waited_s: float,
        time_is_over: Callable[[], bool],
    ) -> None:
        self.part, self.block = part, block
        self.ids, self.rows, self.positions = ids, rows, positions
        self.is_new_part, self.waited_s = is_new_part, waited_s
        self._read, self._batch_size = read, batch_size
        self._time_is_over = time_is_over
        self._data: Any = None
        self._trained: int | None = None  # batches, if they are taken one by one

    @property
    def data(self) -> Any:  # noqa: ANN401  (the user's data)
        """The records of `positions`, as the data set makes a batch: read when asked."""
        if self._data is None:
            self._data = self._read(self.positions)
        return self._data

    def batches(self) -> Iterator[Int64s]:
        """The positions of this visit, batch by batch, until time is over.

        Those that were not reached, or behind a ``break``, are trained when the block comes
        to this data part again, in this round. The first always is.
        """
        self._trained = 0
        for start in range(0, max(len(self.positions), 1), self._batch_size):
            if self._trained and self._time_is_over():
                return
            self._trained += 1
            yield self.positions[start : start + self._batch_size]

    def num_trained(self) -> int:
        """Batches of this visit that the loop is done with: all, unless it said others."""
        if self._trained is None:
            return max(-(-len(self.positions) // self._batch_size), 1)
        return max(self._trained, 1)

    def __repr__(self) -> str:
        counts = f"{len(self.positions)} records, {len(self.ids)} rows"
        return f"Cell(part={self.part}, block={self.block}, {counts})"


def rotate(
    membership: Membership,
    stages: Stages,
    rows: TableRows,
    known: KnownCells,
    dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
    wanted: Rotate,
) -> Iterator[Cell]:
    """See `Table.rotate`; a loop over the same data as one before is cut as that was."""
    membership.calls.check_open()
    plan = membership.carrier.plan(rows.part)
    check_rotate(rows, wanted, plan.spec.pace)
    cells: list[Cells] = []

    def shape(spec: StageSpec) -> StageSpec:
        cut, records = describe_rotation(spec, rows, plan.num_row_slots, wanted, known)
        cells.append(records)
        return cut

    cutting = Cutting(1, wanted.epochs, seed=wanted.seed, task_size=1)
    planned = stages.plan("train", dataset, cutting, shape)

    def visit(stage: Stage) -> Generator[Cell, None, None]:
        return RotationLoop(membership, stage, cells[0], rows, wanted.step_s).run()

    return membership.calls.iterate(run_stage(stages, planned, visit))


@final
class RotationLoop:
    """One loop over cells."""

    def __init__(
        self,
        membership: Membership,
        stage: Stage,
        cells: Cells,
        rows: TableRows,
        step_s: float | None,
    ) -> None:
        """Go over a stage of ``cells``, which hold its records."""
        spec = stage.spec
        assert spec.rotation is not None
        self.waited_s = self.pushed_s = self.computed_s = 0.0
        carrier, driver = membership.carrier, membership.driver
        self._carrier, self._rows, self._step_s = carrier, rows, step_s
        self._cells, self._source = cells, stage.source
        self._spec: StageSpec = spec
        self._rotation: RotationSpec = spec.rotation
        self._acts, self._clock = carrier.protocol.rotation, driver.clock
        # {data part that this process has had: as whom it had it last}
        self._parts: dict[int, StandingThen] = {}
        self._peers = PeerBlocks(membership.link, rows.part, 1 + spec.rotation.slices)
        self._ahead = LookAhead(driver, rows, self._rows_of, self._peers)

    def run(self) -> Generator[Cell, None, None]:
        """Cells for this trainer until the rotation is over for all.

        A loop that is left early hands its cells back; what the open one has changed is
        dropped with it.

        Raises:
            Preempted: the trainer was told to leave.
        """
        carrier, is_over = self._carrier, False
        carrier.run(carrier.protocol.begin_stage(self._spec))
        self._rows.is_rotating = True
        try:
            began_s = self._clock.now_s()
            while True:
                found = carrier.run(carrier.protocol.next_batch())
                if isinstance(found, Over):
                    is_over = True
                    return
                if isinstance(found, Leaving):
                    raise Preempted(found.reason)
                if isinstance(found, Flush):
                    carrier.flush()
                    continue
                last = self._acts.visit(found.key, found.batch)
                cell = self._cell(found, last, began_s)
                self._look_ahead()
                began_s = self._clock.now_s()
                carrier.stopwatch.begin()
                carrier.stopwatch.has_read()
                yield cell
                carrier.stopwatch.end()
                self.computed_s += self._clock.now_s() - began_s
                began_s = self._end(found, last, cell)
        finally:
            carrier.stopwatch.rest()
            self._take_ahead()
            self._ahead.close()
            self._peers.clear()
            self._rows.is_rotating = False
            if not is_over:
                with leaving_anyhow("the rotation was left without handing its cells back"):
                    carrier.leave_loop()
            self._tell()

    def _cell(self, found: Batch, last: int, began_s: float) -> Cell:
        """A visit of a cell, of the batches from the one found to the last, with rows."""
        key = found.key
        part, block = self._rotation.cell_of(key.task)
        ids = self._rows_of(block)
        rows = self._ahead.rows_of(key, self._acts.standing)
        if rows is None:
            rows = self._fetch(key, block, ids)
        records = self._cells.of(key.task)
        size = self._spec.batch_size
        # Who it was before a return may have computed what the servers do not have.
        standing = self._acts.standing
        is_new = self._acts.lease_of(key).is_moved or self._parts.get(part) != standing
        self._parts[part] = standing
        now_s = self._clock.now_s()
        self.waited_s += now_s - began_s
        self._carrier.outlook.epoch = key.epoch
        due_s = None if self._step_s is None else now_s + self._step_s
        return Cell(
            part=part,
            block=block,
            ids=ids,
            rows=rows.reshape(len(ids), *self._rows.combine.shape),
            positions=records[found.batch * size : (last + 1) * size],
            read=self._source.batch,
            batch_size=size,
            is_new_part=is_new,
            waited_s=now_s - began_s,
            time_is_over=lambda: due_s is not None and self._clock.now_s() >= due_s,
        )

    def _fetch(self, key: TaskKey, block: int, ids: Int64s) -> Array:
        own = self._rows
        rows = np.empty((len(ids), own.spec.dim), own.combine.dtype)
        with self._carrier.stopwatch.waiting():
            if self._peers.wait_rows(self._acts.lease_of(key), block, rows):
                return rows
        return own.read(ids)

    def _keep(self, key: TaskKey, cell: Cell) -> None:
        """A copy for whoever has the block next, if it is what home will have."""
        lease, rows = self._acts.lease_of(key), cell.rows
        is_sure = not lease.edges and (rows.dtype.kind != "f" or np.isfinite(rows).all())
        if is_sure and rows.dtype == np.dtype(self._rows.combine.dtype):
            whole = np.ascontiguousarray(rows).reshape(len(cell.ids), -1)
            self._peers.keep(lease.token, cell.block, self._acts.standing, whole)

    def _end(self, found: Batch, last: int, cell: Cell) -> float:
        """The user is done with a cell: what it has changed leaves; when that was over."""
        carrier, acts, key = self._carrier, self._acts, found.key
        began_s = self._clock.now_s()
        if not carrier.protocol.must_join and acts.holds(key):
            trained = found.batch + cell.num_trained() - 1
            acts.deliver(key, trained)
            self._write(cell)
            self._keep(key, cell)
            if self._ahead.is_done():
                self._take_ahead()
            self._push()
            back = acts.carry_over(key) if trained < last else None
            if back is not None:
                carrier.run(carrier.protocol.ask(back))
        else:
            self._drop()
        now_s = self._clock.now_s()
        self.pushed_s += now_s - began_s
        self._take_ahead()
        return now_s

    def _write(self, cell: Cell) -> None:
        own, rows = self._rows, cell.rows
        shape, dtype = (len(cell.ids), *own.combine.shape), np.dtype(own.combine.dtype)
        if rows.shape != shape or not np.can_cast(rows.dtype, dtype, "same_kind"):
            raise UsageError(
                f"cell.rows: expected {shape} of {dtype}, got {rows.shape} of "
                f"{rows.dtype}: change them in place"
            )
        values = np.ascontiguousarray(rows, dtype).reshape(len(cell.ids), -1)
        own.write(cell.ids, values, "replace")

    def _drop(self) -> None:
        """The cell is gone, and what it has pushed to other tables since then with it."""
        self._parts.clear()
        for part in self._carrier.parts:
            if self._carrier.protocol.parts[part].forgotten:
                self._carrier.step(part)

    def _push(self) -> None:
        """All that the cell has changed leaves: in tables, as a whole or not at all.

        A block alone lies on one server, and is whole by itself.
        """
        mine, known = self._rows.part, self._carrier.tables
        parts = self._carrier.protocol.parts
        is_open = [part for part in sorted(parts) if parts[part].window.is_open()]
        beside = [part for part in is_open if part != mine]
        tables = [  # what is pushed to these can wait for what is pushed beside it
            part for part in beside if part in known and not parts[part].rules.is_sync
        ]
        if not any(known[part].rows.has_written() for part in tables):
            tables = []
        for part in beside:
            if part not in tables:
                self._flush(part)
        self._flush_together(mine, tables)

    def _flush_together(self, mine: int, beside: list[int]) -> None:
        carrier, parts = self._carrier, self._carrier.protocol.parts
        for part in beside:
            carrier.load(part)
        try:
            parts[mine].writing = Writing({}, tuple(beside)) if beside else None
            self._flush(mine)
        finally:
            parts[mine].writing = None
            for part in beside:
                carrier.tables[part].clear()

    def _flush(self, part: int) -> None:
        carrier = self._carrier
        if carrier.protocol.parts[part].window.is_open():
            carrier.step(part, flush=True)
        if part in carrier.protocol.stepping.flights:
            carrier.run(carrier.protocol.land(part))

    def _rows_of(self, block: int) -> Int64s:
        return np.arange(*self._rows.combine.bounds(block, self._rotation.blocks))

    def _look_ahead(self) -> None:
        acts, rotation = self._acts, self._rotation
        if acts.num_held() < rotation.slices and not self._carrier.protocol.must_join:
            self._ahead.begin(acts.ahead(self._spec), acts.standing, rotation)

    def _take_ahead(self) -> None:
        """What was found meanwhile is held from now on."""
        found = self._ahead.wait_found()
        if found is not None:
            self._acts.take(self._spec, found.lease, found.standing)

    def _tell(self) -> None:
        total_s = self.waited_s + self.pushed_s + self.computed_s
        if total_s > 0:
            _log.info(
                "rotation: %.3f s computing, %.3f s pushing, %.3f s waiting for blocks "
                "(%.1f %%), %d from other trainers",
                self.computed_s,
                self.pushed_s,
                self.waited_s,
                100 * self.waited_s / total_s,
                self._peers.num_asked,
            )
