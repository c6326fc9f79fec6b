"""From what a user says of a table to what is shared of it.

A table that was shared, as the user is to have it.

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from paceline.config import Combine, Constant, Highest, Lowest, RowInit, Zeros
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows import Array, require_rule
from paceline.trainer.loop import Stages
from paceline.trainer.member import Membership
from paceline.trainer.rows import AskingServers, Replica, TableRows
from paceline.trainer.tables.table import Table
from paceline.trainer.tables.writes import TableWriter

MOST_BLOCKS: Final = 4096  # a request about all of them is one frame's
# Any value is as great, or as little: the first that is pushed is the row's.
_BEGINS: Final[Mapping[str, RowInit]] = {"max": Lowest(), "min": Highest()}


def describe_table(
    name: str,
    shape: tuple[int | None, ...],
    dtype: Any,  # noqa: ANN401  (whatever numpy takes for one)
    combine: str,
    init: RowInit | Array | torch.Tensor | None,
    blocks: int | None,
) -> tuple[TableSpec, Array | None]:
    """The spec of a table, and the rows (rows, dim) that it begins with, if told.

    Without ``init`` rows begin with what the first value pushed replaces: zeros for sums,
    the dtype's lowest for a maximum, its highest for a minimum.

    Raises:
        UsageError: an argument is out of range, and what is expected instead.
    """
    if not name:
        raise UsageError("table: expected a name, got an empty one")
    try:
        return _describe(name, shape, dtype, combine, init, blocks)
    except UsageError as error:
        raise UsageError(f"table {name!r}: {error}") from error


def _describe(
    name: str,
    shape: tuple[int | None, ...],
    dtype: Any,  # noqa: ANN401  (as above)
    combine: str,
    init: RowInit | Array | torch.Tensor | None,
    blocks: int | None,
) -> tuple[TableSpec, Array | None]:
    given, shape = shape, _plain(shape)
    if not shape or not all(_is_size(one) for one in shape[1:]):
        raise UsageError(f"shape: expected (rows or None, sizes >= 1 ...), got {given!r}")
    num_rows, row = shape[0], tuple(one for one in shape[1:] if one is not None)
    if num_rows is not None and not _is_size(num_rows):
        raise UsageError(f"shape: expected 1 row or more, or None, got {num_rows!r}")
    if blocks is not None and not (_is_size(blocks) and blocks <= MOST_BLOCKS):
        raise UsageError(f"blocks: expected 1 to {MOST_BLOCKS}, got {blocks!r}")
    require_rule(combine)
    numbers = _dtype_of(dtype)
    dim = int(np.prod(row, dtype=np.int64))
    begins = None
    if init is None:
        init = _BEGINS.get(combine, Zeros())
    if isinstance(init, torch.Tensor):
        init = init.detach().cpu().numpy()
    if isinstance(init, np.ndarray):
        if num_rows is None:
            raise UsageError("init: a keyed table begins without rows, got values")
        if init.shape != shape or not np.can_cast(init.dtype, numbers, "same_kind"):
            raise UsageError(
                f"init: expected values {shape} of {numbers}, got {init.shape} of "
                f"{init.dtype}"
            )
        begins = np.ascontiguousarray(init, numbers).reshape(num_rows, dim)
        init = Zeros()
    else:
        _require_held(init, numbers)
    own = Combine(
        rule=combine,
        dtype=numbers.name,
        shape=row,
        num_rows=num_rows,
        blocks=blocks or 0,
        has_values=begins is not None,
    )
    return TableSpec(name, dim, own, init), begins


def _require_held(init: RowInit, numbers: np.dtype[Any]) -> None:
    """Refuse a beginning that rows cannot hold."""
    if not isinstance(init, Constant):
        if numbers.kind != "f" and not isinstance(init, Zeros | Lowest | Highest):
            raise UsageError(f"init: {init} draws floats, and rows are of {numbers}")
        return
    if numbers.kind == "f":
        bounds = np.finfo(numbers)
        fits = float(bounds.min) <= init.value <= float(bounds.max)
    else:
        whole = np.iinfo(numbers)
        fits = isinstance(init.value, int) and whole.min <= init.value <= whole.max
    if not fits:
        raise UsageError(f"init: rows are of {numbers}, which cannot hold {init.value}")


def _plain(shape: Any) -> tuple[int | None, ...]:  # noqa: ANN401  (whatever a user says)
    """A shape of Python's own numbers; those of numpy are what arrays say of themselves."""
    if not isinstance(shape, tuple | list):
        return ()
    return tuple(int(one) if isinstance(one, np.integer) else one for one in shape)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _dtype_of(dtype: Any) -> np.dtype[Any]:  # noqa: ANN401  (as above)
    try:
        found = np.dtype(str(dtype).removeprefix("torch.") if _is_torch(dtype) else dtype)
        return found.newbyteorder("=")
    except TypeError as error:
        raise UsageError(f"dtype: expected one of numpy or torch, got {dtype!r}") from error


def _is_torch(dtype: object) -> bool:
    return isinstance(dtype, torch.dtype)


def open_table(
    membership: Membership, stages: Stages, rows: TableRows, replicate_every: int | None
) -> Table:
    """The table of these rows; with a copy of them, if it is replicated."""
    if replicate_every is not None:
        calls, protocol = membership.calls, membership.carrier.protocol
        servers = AskingServers(
            protocol, membership.driver, lambda: calls.open_call is not None
        )
        rows.replica = Replica(rows.part, replicate_every, servers)
    return Table(rows, TableWriter(membership, stages))
