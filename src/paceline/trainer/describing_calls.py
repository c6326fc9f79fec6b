"""From what a user says of a collective call to what is exchanged.

Pure.
"""

from collections.abc import Sequence

from paceline.errors import UsageError
from paceline.trainer.gathering import Operation
from paceline.trainer.reducing import HOWS, RULES, Array


def check_call(operation: Operation, arrays: Sequence[Array], *, has_pushed: bool) -> None:
    """Refuse a call that cannot be made.

    Args:
        operation: what is to be computed.
        arrays: of which values.
        has_pushed: whether the batch has pushed to the table of the call.

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
            f"{call}: expected how of {', '.join(HOWS)}, got {operation.how!r}; large "
            f"values are pushed to the table, and pulled"
        )
    wrong = [array.dtype for array in arrays if array.dtype.kind not in "biuf"]
    if wrong or not arrays:
        found = wrong[0] if wrong else "none"
        raise UsageError(f"{call}: expected arrays of numbers, got {found}")
    if has_pushed:
        raise UsageError(
            f"{call}: this batch has pushed to it already, and is one step: push in the "
            f"next one, or to another table"
        )
