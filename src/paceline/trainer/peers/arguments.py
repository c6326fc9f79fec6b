"""From what a user says of a collective call to what is exchanged.

Pure.
"""

from collections.abc import Sequence

import numpy as np

from paceline.config import Combine
from paceline.errors import UsageError
from paceline.trainer.peers.collective import Operation
from paceline.trainer.peers.reduction import HOWS, RULES, Array


def check_call(
    operation: Operation, arrays: Sequence[Array], combine: Combine, *, has_pushed: bool
) -> None:
    """Refuse a call that cannot be made; ``has_pushed``: to its table, in this batch.

    Raises:
        UsageError: an argument is none, and what is expected instead.
    """
    call = f"{operation.kind} of table {operation.name!r}"
    if operation.rule not in RULES:
        raise UsageError(
            f"{call}: expected a rule of {', '.join(RULES)}, got {operation.rule!r}: say "
            f"which, rule='add'"
        )
    if operation.how not in HOWS:
        raise UsageError(
            f"{call}: expected how of {', '.join(HOWS)}, got {operation.how!r}"
        )
    wrong = [array.dtype for array in arrays if array.dtype.kind not in "biuf"]
    if wrong or not arrays:
        found = wrong[0] if wrong else "none"
        raise UsageError(f"{call}: expected arrays of numbers, got {found}")
    if operation.how == "push+pull":
        _check_served(call, operation, arrays, combine)
    if has_pushed:
        raise UsageError(
            f"{call}: this batch has pushed to it already, and is one step: push in the "
            f"next one, or to another table"
        )


def _check_served(
    call: str, operation: Operation, arrays: Sequence[Array], combine: Combine
) -> None:
    """Servers reduce rows of the table, whole, by its rule."""
    shape, dtype = (combine.num_rows, *combine.shape), np.dtype(combine.dtype)
    if combine.num_rows is None:
        raise UsageError(
            f"{call}: push+pull goes through the rows of a dense table, and this one is "
            f"keyed: give it a number of rows"
        )
    found = [(array.shape, array.dtype) for array in arrays]
    if found != [(shape, dtype)]:
        told = ", ".join(f"{dtype} {shape}" for shape, dtype in found)
        raise UsageError(
            f"{call}: push+pull goes through the table's own rows: expected one array of "
            f"{dtype} {shape}, got {told}; make a table of that shape for it"
        )
    if operation.rule != combine.rule:
        raise UsageError(
            f"{call}: push+pull reduces by the table's own rule, {combine.rule}; got "
            f"{operation.rule!r}: make the table with combine={operation.rule!r}"
        )
