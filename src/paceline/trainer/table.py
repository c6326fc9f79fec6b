"""What the user holds of a table: `Session.table` returns a `Table`.

::

    pull   rows as they are, with what this batch has pushed
    push   values that are combined with rows; they leave when the batch is over

Waits: for servers. The thread of the user's script calls.
"""

from collections.abc import Iterator
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt
import torch

from paceline.errors import UsageError
from paceline.params.rows.combining import Array
from paceline.params.rows.kernels import Int64s
from paceline.trainer.cell import Cell
from paceline.trainer.describing_rotation import Rotate
from paceline.trainer.own_rows import OwnRows

Ids = npt.ArrayLike | torch.Tensor | None
Values = npt.ArrayLike | torch.Tensor


class Writer(Protocol):
    """Carries what is pushed."""

    def has_batch(self, part: int) -> bool:
        """Whether a batch is in the user's hands that a push would belong to."""

    def is_in_loop(self) -> bool:
        """Whether a loop is open."""

    def step_table(self, part: int) -> None:
        """The batch in the user's hands is over for a table: what was written leaves."""

    def write_alone(self, part: int) -> None:
        """What was written leaves as a push of no batch."""

    def rotate(
        self,
        rows: OwnRows,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        wanted: Rotate,
    ) -> Iterator[Cell]:
        """A loop over the cells of a rotation of these rows."""


@final
class Table:
    """Rows that algorithms change themselves: dense, or keyed by any int64 id.

    Attributes:
        name: its name in the job.
        shape: (rows, ...) of a dense table; (None, ...) of a keyed one.
        dtype: numpy's.
    """

    def __init__(self, rows: OwnRows, writer: Writer) -> None:
        """Bind; `Session.table` does."""
        combine = rows.combine
        self.name = rows.spec.name
        self.shape = (combine.num_rows, *combine.shape)
        self._row = combine.shape
        self.dtype = np.dtype(combine.dtype)
        self._rows, self._writer = rows, writer

    def pull(self, ids: Ids = None) -> Array:
        """Rows as they are on the servers now, with what this batch has pushed so far.

        Nothing waits for anybody's pushes, and no row is made: one that nobody has written
        reads as it would begin.

        Args:
            ids: whole numbers (n,), in any order, repeated or not; None: all rows of a
                dense table.

        Returns:
            The caller's own array (n, ...), of the table's dtype.

        Raises:
            UsageError: an id is none of a dense table's rows; or None of a keyed table.
        """
        found = self._rows.read(self._ids(ids))
        return found.reshape(len(found), *self._row)

    def push(self, ids: Ids, values: Values) -> None:
        """Combine values with rows by the table's rule: each exactly once, whoever dies.

        Inside a loop over `Session.batches` they leave when the batch is over, together:
        they belong to the batch, and the batch counts when servers have them. Outside of
        one they leave at once and have their effect at most once; what a return to a cut
        undoes is not pushed again.

        Args:
            ids: as in `pull`; values of equal ids are combined first.
            values: (n, ...), or one row for all of them.

        Raises:
            UsageError: ids or values are not the table's; the rule is ``replace``, which
                needs a right to the rows; or the batch has been flushed already.
        """
        rule = self._rows.combine.rule
        if rule == "replace":
            raise UsageError(
                f"push: rows of {self.name!r} are replaced, and nobody else may change "
                f"them meanwhile: use table.lock(ids) or table.rotate(...)"
            )
        self._write(ids, values, rule)

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
        wanted = Rotate(by, group, parts, batch_size, epochs, seed, step_s, slices)
        return self._writer.rotate(self._rows, dataset, wanted)

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
        if self._writer.is_in_loop() and self._writer.has_batch(self._rows.part):
            self._writer.step_table(self._rows.part)

    def _write(self, ids: Ids, values: Values, rule: str) -> None:
        part, in_loop = self._rows.part, self._writer.is_in_loop()
        if in_loop and not self._writer.has_batch(part):
            raise UsageError(
                f"push: the batch is over for table {self.name!r}: push before flush(), in "
                f"the body of the loop"
            )
        if self._rows.is_rotating:
            raise UsageError(
                f"push: blocks of {self.name!r} go round, and each is one trainer's: "
                f"change cell.rows, in place"
            )
        checked = self._ids(ids)
        self._rows.write(checked, self._values(values, len(checked)), rule)
        if not in_loop:
            self._writer.write_alone(part)

    def _ids(self, ids: Ids) -> Int64s:
        num_rows = self.shape[0]
        if ids is None:
            if num_rows is None:
                raise UsageError(f"table {self.name!r} is keyed: say which ids")
            return np.arange(num_rows)
        found = _array(ids)
        if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
            raise UsageError(
                f"table {self.name!r}: expected ids as whole numbers (n,), got "
                f"{found.dtype} {found.shape}"
            )
        if found.dtype == np.uint64 and len(found) and int(found.max()) >= 2**63:
            raise UsageError(
                f"table {self.name!r}: expected ids of int64, got {int(found.max())}"
            )
        found = np.ascontiguousarray(found, np.int64)
        if num_rows is not None and len(found):
            least, most = int(found.min()), int(found.max())
            if least < 0 or most >= num_rows:
                raise UsageError(
                    f"table {self.name!r} has the rows 0..{num_rows - 1}, got "
                    f"{least if least < 0 else most}"
                )
        return found

    def _values(self, values: Values, count: int) -> Array:
        found = _array(values)
        wanted = (count, *self._row)
        is_whole = found.dtype.kind in "iu" and self.dtype.kind in "iu"
        if not is_whole and not np.can_cast(found.dtype, self.dtype, "same_kind"):
            raise UsageError(
                f"table {self.name!r} holds {self.dtype}, got values of {found.dtype}: "
                f"convert them first"
            )
        if found.shape not in {wanted, self._row}:
            raise UsageError(
                f"table {self.name!r}: expected values {wanted} for {count} ids, or "
                f"one row {self._row} for all, got {found.shape}"
            )
        if self.dtype.kind in "iu" and found.dtype != self.dtype and found.size:
            bounds = np.iinfo(self.dtype)
            least, most = int(found.min()), int(found.max())
            if least < bounds.min or most > bounds.max:
                raise UsageError(
                    f"table {self.name!r} holds {self.dtype}, {bounds.min}..{bounds.max}; "
                    f"got {least if least < bounds.min else most}"
                )
        spread = np.broadcast_to(found.astype(self.dtype, copy=False), wanted)
        return np.array(spread, order="C").reshape(count, -1)

    def __repr__(self) -> str:
        """Name, shape, dtype."""
        return f"Table({self.name!r}, {self.shape}, {self.dtype})"


def _array(values: Any) -> Array:  # noqa: ANN401  (whatever holds numbers)
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    found: Array = np.asarray(values)
    return found
