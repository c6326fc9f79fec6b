"""Which parts may take several steps on the same rows at once (hogwild).

::

    rows of a table      beside each other            dense blocks       one push at a time
    SGD                  a lost change costs one step on one element
    Adagrad, Adam, AdamW the same, or one square of one sum, one step on one moment
    FTRL                 refused: z and n add up to w

An optimizer that may changes each element on its own, from that element's gradient and
state alone; steps of a table are counted exactly. Dense blocks are no faster so: the same
memory moves from core to core with every push. Source: Niu, Recht, Re, Wright 2011
(Hogwild!), who prove it for plain SGD with sparse gradients.

Pure.
"""

from paceline.config import FTRL, Async
from paceline.messages.shared import PartSpec


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
