"""What a user hands to a table: ids and values, checked and made its own.

Pure.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from paceline.errors import UsageError
from paceline.params.rows import Array, Int64s

Ids = npt.ArrayLike | torch.Tensor | None
Values = npt.ArrayLike | torch.Tensor


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
    """Values as (count, dim) of a table's dtype, the caller's own.

    Args:
        name: the table's.
        row: shape of a row.
        dtype: the table's.
        values: (count, ...), or one row for all.
        count: ids.

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
