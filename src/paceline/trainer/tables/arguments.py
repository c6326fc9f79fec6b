"""What a user says of a table, and hands to it: checked, and made the table's own.

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from paceline.config import Combine, Constant, Highest, Lowest, RowInit, Zeros
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows import Array, Int64s, require_rule

Ids = npt.ArrayLike | torch.Tensor | None
Values = npt.ArrayLike | torch.Tensor

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
        is_torch = isinstance(dtype, torch.dtype)
        found = np.dtype(str(dtype).removeprefix("torch.") if is_torch else dtype)
        return found.newbyteorder("=")
    except TypeError as error:
        raise UsageError(f"dtype: expected one of numpy or torch, got {dtype!r}") from error


def checked_ids(name: str, num_rows: int | None, ids: Ids) -> Int64s:
    """Ids as int64 (n,); None: all rows of a dense table.

    Raises:
        UsageError: they are no whole numbers, or one is none of the table's rows.
    """
    if ids is None:
        if num_rows is None:
            raise UsageError(f"table {name!r} is keyed: say which ids")
        return np.arange(num_rows)
    found = as_array(ids)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise UsageError(
            f"table {name!r}: expected ids as whole numbers (n,), got "
            f"{found.dtype} {found.shape}"
        )
    if found.dtype == np.uint64 and len(found) and int(found.max()) >= 2**63:
        raise UsageError(f"table {name!r}: expected ids of int64, got {int(found.max())}")
    found = np.ascontiguousarray(found, np.int64)
    if num_rows is not None and len(found):
        least, most = int(found.min()), int(found.max())
        if least < 0 or most >= num_rows:
            raise UsageError(
                f"table {name!r} has the rows 0..{num_rows - 1}, got "
                f"{least if least < 0 else most}"
            )
    return found


def checked_values(
    name: str, row: tuple[int, ...], dtype: np.dtype[Any], values: Values, count: int
) -> Array:
    """Values (count, ...), or one row for all, as (count, dim); the caller's own.

    ``row`` is the shape of a row, ``dtype`` the table's.

    Raises:
        UsageError: they have another shape, or do not fit the dtype.
    """
    found = as_array(values)
    wanted = (count, *row)
    is_whole = found.dtype.kind in "iu" and dtype.kind in "iu"
    if not is_whole and not np.can_cast(found.dtype, dtype, "same_kind"):
        raise UsageError(
            f"table {name!r} holds {dtype}, got values of {found.dtype}: convert them first"
        )
    if found.shape not in {wanted, row}:
        raise UsageError(
            f"table {name!r}: expected values {wanted} for {count} ids, or "
            f"one row {row} for all, got {found.shape}"
        )
    if dtype.kind in "iu" and found.dtype != dtype and found.size:
        bounds = np.iinfo(dtype)
        least, most = int(found.min()), int(found.max())
        if least < bounds.min or most > bounds.max:
            raise UsageError(
                f"table {name!r} holds {dtype}, {bounds.min}..{bounds.max}; "
                f"got {least if least < bounds.min else most}"
            )
    spread = np.broadcast_to(found.astype(dtype, copy=False), wanted)
    return np.array(spread, order="C").reshape(count, int(np.prod(row)))


def as_array(values: Any) -> Array:  # noqa: ANN401  (whatever holds numbers)
    """Numbers of whatever kind, as numpy has them; not copied where that is possible."""
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    found: Array = np.asarray(values)
    return found
