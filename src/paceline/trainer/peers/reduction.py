"""Reducing the values of several trainers: in one order, so to the same bits everywhere.

``((v0 + v1) + v2) + ...``, element by element, in the order of the members; a slice of it
is the same slice of the whole. Floating point adds to other bits in another order, so the
order is never that of arrival.

::

    allreduce            everybody asks everybody for all of it: one hop, (n - 1) S bytes in
    regroup+allgather    everybody asks for one slice of all, then for all other slices:
                         two hops, 2 (n - 1) / n S bytes in
    push+pull            servers reduce: S bytes out, S bytes in, whatever n is

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
How = Literal["auto", "allreduce", "regroup+allgather", "push+pull"]

LARGE_BYTES = 256 << 10  # from here on the second hop costs less than the bytes it saves

_RULES: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
}
RULES = tuple(_RULES)
HOWS: tuple[str, ...] = get_args(How)


def reduce_in_order(rule: str, arrays: Sequence[Array]) -> Array:
    """Reduce arrays of one shape and dtype, in their order; a new array.

    Args:
        rule: ``"add"``, ``"max"`` or ``"min"``; whole numbers wrap around, as numpy's do.
        arrays: at least one; not changed.
    """
    if len(arrays) == 1:
        return arrays[0].copy()
    total: Array = _RULES[rule](arrays[0], arrays[1])
    for array in arrays[2:]:
        _RULES[rule](total, array, out=total)
    return total


def slice_bounds(num: int, index: int, count: int) -> tuple[int, int]:
    """First and one behind the last of slice ``index`` of ``count`` of ``num`` things."""
    return index * num // count, (index + 1) * num // count


def sliced(arrays: Sequence[Array], index: int, count: int) -> list[Array]:
    """Slice ``index`` of ``count`` of the rows of each."""
    return [array[slice(*slice_bounds(len(array), index, count))] for array in arrays]


def takes_two_hops(how: How, num_bytes: int, members: int) -> bool:
    """Whether values are regrouped first; a function of what all members know alike."""
    if how == "auto":
        return members > 2 and num_bytes >= LARGE_BYTES
    return how == "regroup+allgather"
