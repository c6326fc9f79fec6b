"""Which optimizers guards make sense for.

::

    guard             means nothing for     why
    scale, warmup     Rprop                 its learning rate is its first step only
                      ASGD                  uses a rate one step after it is told
                      FTRL (rows)           weights follow from sums, not from steps
    compensate        rows                  their values then are not at hand

Pure.
"""

from typing import Final

from paceline.config import FTRL
from paceline.messages.shared import PartSpec

_NO_RATE: Final = {
    "Rprop": "takes its learning rate for its very first step alone",
    "ASGD": "takes a learning rate one step after it is told",
}


def why_not_guarded(spec: PartSpec) -> str | None:
    """Why a guard of a part's pace means nothing for what the part is; None if all do."""
    guards = spec.pace.guards
    if guards is None:
        return None
    kind = "" if spec.optimizer is None else spec.optimizer.kind
    for option in ("scale", "warmup"):
        if getattr(guards, option) is None:
            continue
        if kind in _NO_RATE:
            return (
                f"{option} changes the learning rate from update to update, and {kind} "
                f"{_NO_RATE[kind]}: use another optimizer, or leave {option} out"
            )
        for table in spec.tables:
            if isinstance(table.optimizer, FTRL):
                return (
                    f"{option} changes the learning rate from update to update, and rows "
                    f"of FTRL follow from sums over all of them: give the embedding "
                    f"{table.name!r} another row optimizer, or leave {option} out"
                )
    if guards.compensate is None:
        return None
    by_rows = [table.name for table in spec.tables]
    by_rows += [p.names[0] for p in spec.parameters if p.has_sparse_gradients]
    if by_rows:
        return (
            f"compensate needs the values that a gradient was computed on, and those of "
            f"{by_rows[0]!r} are rows: share it as a part of its own with another pace, or "
            f"leave compensate out"
        )
    return None
