"""From what a user says of a rotation to its stage, and the records of its cells.

Pure.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import msgspec
import numpy as np
import xxhash

from paceline.config import Pace
from paceline.data.cells import Cells, Int64s, cut_cells, parts_of
from paceline.errors import UsageError
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import StageSpec
from paceline.pace.policy import updates_in_rounds
from paceline.trainer.rows import TableRows
from paceline.trainer.tables.arguments import as_array

MOST_CELLS = 1 << 16  # the coordinator knows the records of each
MOST_KNOWN = 4  # rotations whose cells are kept


class Rotate(NamedTuple):
    """The words of `Table.rotate`, but for the data set."""

    by: Any
    group: Any = None
    parts: int | None = None
    batch_size: int | None = None
    epochs: int = 1
    seed: int = 0
    step_s: float | None = None
    slices: int = 2


def check_rotate(rows: TableRows, wanted: Rotate, pace: Pace) -> None:
    """Refuse a rotation that cannot be.

    Raises:
        UsageError: of a keyed table, of one that is updated in rounds, or an argument is
            out of range.
    """
    if rows.combine.num_rows is None:
        raise UsageError(
            f"rotate: table {rows.spec.name!r} is keyed, and its blocks are no ranges of "
            f"rows: make it dense, session.table(name, (rows, ...))"
        )
    if updates_in_rounds(pace):  # a cell is over when its round is decided, not applied
        raise UsageError(
            f"rotate: table {rows.spec.name!r} is {pace}, and a block would go on before "
            f"its rows are there: make it with pace=paceline.Async()"
        )
    for name in ("parts", "batch_size", "epochs", "slices"):
        value = getattr(wanted, name)
        is_default = value is None and name in {"parts", "batch_size"}
        if not is_default and (not isinstance(value, int) or value < 1):
            raise UsageError(f"rotate: {name} must be a whole number >= 1, got {value!r}")
    if wanted.step_s is not None and not wanted.step_s > 0:
        raise UsageError(f"rotate: step_s must be > 0 seconds, got {wanted.step_s!r}")
    if wanted.step_s is not None and wanted.batch_size is None:
        raise UsageError(
            "rotate: with step_s a cell is left between two of its batches: say batch_size"
        )


@final
class KnownCells:
    """What was cut last, by what it was cut from: a script may rotate again and again."""

    def __init__(self) -> None:
        self._known: dict[str, Cells] = {}

    def cells(self, name: str, cut: Callable[[], Cells]) -> Cells:
        """The cells of this name, cut if they are not known."""
        found = self._known.pop(name, None) or cut()
        self._known[name] = found
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return found


def describe_rotation(
    spec: StageSpec, rows: TableRows, num_blocks: int, wanted: Rotate, known: KnownCells
) -> tuple[StageSpec, Cells]:
    """The stage, cut into cells, and the records of each.

    Raises:
        UsageError: ``by`` or ``group`` do not fit the data or the table.
    """
    num_rows = rows.combine.num_rows
    assert num_rows is not None
    by = _numbers("by", wanted.by, spec.records)
    outside = by[(by < 0) | (by >= num_rows)]
    if len(outside):
        raise UsageError(
            f"rotate: by names rows of {rows.spec.name!r}, which has 0..{num_rows - 1}; "
            f"got {outside[0]}"
        )
    group = None
    if wanted.group is not None:
        group = _numbers("group", wanted.group, spec.records)
    parts = wanted.parts or max(1, num_blocks // wanted.slices)
    if parts * num_blocks > MOST_CELLS:
        raise UsageError(
            f"rotate: {parts} data parts x {num_blocks} blocks are more than {MOST_CELLS} "
            f"cells: take fewer parts, or session.table(..., blocks=n)"
        )
    digest = xxhash.xxh3_64(by.tobytes())
    digest.update(b"" if group is None else group.tobytes())
    name = digest.hexdigest()

    def cut() -> Cells:
        bounds = [rows.combine.bounds(block, num_blocks)[1] for block in range(num_blocks)]
        blocks = np.searchsorted(np.array(bounds), by, side="right")
        return cut_cells(blocks, num_blocks, parts_of(len(by), group, parts), parts)

    cells = known.cells(f"{name} {len(by)} {num_rows} {num_blocks} {parts}", cut)
    sizes = cells.sizes()
    size = wanted.batch_size or max(*sizes, 1)
    rotation = RotationSpec(rows.part, parts, num_blocks, sizes, wanted.slices)
    return msgspec.structs.replace(
        spec,
        batch_size=size,
        task_size=size,
        fingerprint=f"{spec.fingerprint}, by {name}",
        rotation=rotation,
    ), cells


def _numbers(name: str, values: Any, count: int) -> Int64s:  # noqa: ANN401  (whatever holds numbers)
    found = as_array(values)
    if found.shape != (count,) or (count and found.dtype.kind not in "iu"):
        raise UsageError(
            f"rotate: expected {name} as whole numbers ({count},), one per record, got "
            f"{found.dtype} {found.shape}"
        )
    return np.ascontiguousarray(found, np.int64)
