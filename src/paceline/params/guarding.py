"""Which optimizers guards make sense for, and several steps on one row at once (hogwild).

::

    guard             means nothing for     why
    scale, warmup     Rprop                 its learning rate is its first step only
                      ASGD                  uses a rate one step after it is told
                      FTRL (rows)           weights follow from sums, not from steps
    compensate        rows                  their values then are not at hand
    hogwild           FTRL (rows)           z and n add up to w
                      dense blocks          one push at a time

An optimizer that may be hogwild changes each element on its own, from that element's
gradient and state alone: a lost change costs one step on one element (or one square of one
sum, one step on one moment); steps of a table are counted exactly. Dense blocks are no
faster so: the same memory moves from core to core with every push. Source: Niu, Recht, Re,
Wright 2011 (Hogwild!), who prove it for plain SGD with sparse gradients.

Pure.
"""

from typing import Final

from paceline.config import FTRL, Async
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


def is_hogwild(spec: PartSpec) -> bool:
    """Whether pushes of rows of a part are applied beside each other."""
    return isinstance(spec.pace, Async) and spec.pace.isolation == "hogwild"


def why_not_hogwild(spec: PartSpec) -> str | None:
    """Why a part cannot be hogwild as a script wants it; None if it can."""
    if not is_hogwild(spec):
        return None
    if not spec.tables:
        return (
            "isolation=hogwild applies pushes of rows beside each other: expected a part "
            "with rows (paceline.Embedding), got one without, and dense parameters are "
            "updated one push at a time: leave the isolation out (pace=async)"
        )
    return why_not_beside(spec)


def why_not_beside(spec: PartSpec) -> str | None:
    """Why rows of a hogwild part need one step at a time; None if none do."""
    for table in spec.tables if is_hogwild(spec) else ():
        if isinstance(table.optimizer, FTRL):
            return (
                f"isolation=hogwild takes several steps at once, and FTRL of the embedding "
                f"{table.name!r} cannot, since its z and n must change together: use "
                f"another row optimizer, or leave the isolation out"
            )
    return None
