"""How values are combined with rows of a table of the user's own, and with each other.

::

    add      row + value      whole numbers wrap around, as numpy's do
    max min  the greater, the lesser
    replace  the value        of equal ids, the last

Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from paceline.config import Combine
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
        (num_unique, dim), of the same dtype.
    """
    if num_unique == len(values):
        found = np.empty_like(values)
        found[inverse] = values
        return found
    if rule == "replace":
        found = np.empty((num_unique, *values.shape[1:]), values.dtype)
        for at, value in zip(inverse, values, strict=True):  # numpy leaves the order open
            found[at] = value
        return found
    order = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    found = _RULES[rule].reduceat(values[order], starts, axis=0, dtype=values.dtype)
    return np.ascontiguousarray(found)


def zero_of(spec: Combine) -> Callable[[int], Array]:
    """How many rows -> as many rows of zeros."""
    width = int(np.prod(spec.shape, dtype=np.int64))
    return lambda count: np.zeros((count, width), spec.dtype)
