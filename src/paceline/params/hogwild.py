"""Which optimizers may take several steps on the same numbers at once (hogwild).

::

    may          what a lost change costs          may not           why
    SGD          one step on one element           FTRL (rows)       z and n add up to w
    Adagrad      one square of one sum             SparseAdam        changes by rows alone
    Adam, AdamW  one step on one moment            others of torch   hold single numbers
    RMSprop      the same                                            that each step changes

All of the left column change each element on its own, from that element's gradient and
state alone; what they count in single numbers is their steps, and those are counted
exactly. Source: Niu, Recht, Re, Wright 2011 (Hogwild!), who prove it for plain SGD with
sparse gradients.

Pure.
"""

from typing import Final

from paceline.config import FTRL, Async
from paceline.messages.shared import PartSpec

HOGWILD_OPTIMIZERS: Final = ("SGD", "Adagrad", "Adam", "AdamW", "RMSprop")


def is_hogwild(spec: PartSpec) -> bool:
    """Whether pushes of a part are applied beside each other."""
    return isinstance(spec.pace, Async) and spec.pace.isolation == "hogwild"


def why_not_hogwild(spec: PartSpec) -> str | None:
    """Why the optimizers of a hogwild part need one step at a time; None if none does.

    None for any other part.
    """
    if not is_hogwild(spec):
        return None
    if spec.optimizer is not None and spec.optimizer.kind not in HOGWILD_OPTIMIZERS:
        return (
            f"isolation=hogwild takes several steps at once, and {spec.optimizer.kind} "
            f"cannot: use {', '.join(HOGWILD_OPTIMIZERS)}, or leave the isolation out"
        )
    for table in spec.tables:
        if isinstance(table.optimizer, FTRL):
            return (
                f"isolation=hogwild takes several steps at once, and FTRL of the embedding "
                f"{table.name!r} cannot, since its z and n must change together: use "
                f"another row optimizer, or leave the isolation out"
            )
    return None
