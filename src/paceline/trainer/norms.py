"""How large gradients usually are, and which are too large to be pushed.

::

    norm of a push       over all of it: dense gradients and rows, to whatever server
    usual                the median of the trainer's last pushes, the refused among them
    too large            beyond `paceline.pace.guards.most_norm`

A median is what most pushes are like: some wild ones do not move it, and if all become
larger for good, it follows within `REMEMBERED` / 2 pushes.

Pure.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable
from typing import Final, final

import torch

from paceline.config import Pace
from paceline.pace.guards import most_norm
from paceline.trainer.verdicts import Refused

REMEMBERED: Final = 31
FEWEST: Final = 8  # norms from which something is usual


@final
class Norms:
    """Norms of one part's pushes at one trainer."""

    def __init__(self, pace: Pace) -> None:
        """Nothing is usual yet."""
        self._pace = pace
        self._last: deque[float] = deque(maxlen=REMEMBERED)

    def look(self, gradients: Iterable[torch.Tensor]) -> Refused | None:
        """Look at all of a push; why it is not to be applied, or None if it is."""
        norm = norm_of(gradients)
        usual = statistics.median(self._last) if len(self._last) >= FEWEST else None
        self._last.append(norm)
        most = most_norm(self._pace, usual)
        if most is None or norm <= most:
            return None
        return Refused(f"its norm is {norm:.4g}, and usually {usual:.4g}", norm)


def norms_of(pace: Pace) -> Norms | None:
    """What a trainer remembers of a part's norms; None if nothing asks for it."""
    guards = pace.guards
    return None if guards is None or guards.norm is None else Norms(pace)


def norm_of(gradients: Iterable[torch.Tensor]) -> float:
    """The Euclidean norm of all of them together."""
    return math.hypot(*(float(torch.linalg.vector_norm(one)) for one in gradients))
