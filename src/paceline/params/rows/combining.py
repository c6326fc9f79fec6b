"""How values are combined with rows of a table of the user's own, and with each other.

::

    add      row + value      whole numbers wrap around, as numpy's do
    max min  the greater, the lesser
    replace  the value        of equal ids, the last

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from paceline.params.rows.kernels import Int64s

Array = np.ndarray[Any, np.dtype[Any]]

_RULES: Final[Mapping[str, np.ufunc]] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def combine_rows(rule: str, target: Array, rows: Int64s, values: Array) -> None:
    """Combine ``values`` (n, dim) with ``target[rows]``; ``rows`` (n,) are distinct."""
    if rule == "replace":
        target[rows] = values
    else:
        target[rows] = _RULES[rule](target[rows], values)


def combine_equal(rule: str, inverse: Int64s, values: Array, num_unique: int) -> Array:
    """Combine the values of equal ids with each other, in their order.

    Args:
        rule: of the table.
        inverse: int64 (n,): which distinct id each value is for.
        values: (n, dim), not changed.
        num_unique: distinct ids; each occurs.

    Returns:
        (num_unique, dim), of the same dtype; the values themselves where nothing changes.
    """
    if num_unique == len(values):
        if bool((inverse[1:] > inverse[:-1]).all()):
            return values
        found = np.empty_like(values)
        found[inverse] = values
        return found
    if rule == "replace":
        found = np.empty((num_unique, *values.shape[1:]), values.dtype)
        for at, value in zip(inverse, values, strict=True):  # numpy leaves the order open
            found[at] = value
        return found
    if rule == "add":  # several times as fast as numpy's, one after the other as well
        total = torch.zeros((num_unique, *values.shape[1:]), dtype=_torch_dtype(values))
        total.index_add_(0, torch.from_numpy(inverse), torch.from_numpy(values))
        return total.numpy()
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    found = _RULES[rule].reduceat(values[order], starts, axis=0, dtype=values.dtype)
    return np.ascontiguousarray(found)


def distinct(ids: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ids (m,), ascending, and for each of ``ids`` its index among them."""
    if len(ids) < 2 or bool((ids[1:] > ids[:-1]).all()):
        return ids, np.arange(len(ids))
    return np.unique(ids, return_inverse=True)


def _torch_dtype(values: Array) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, values.dtype.name)
    return dtype
