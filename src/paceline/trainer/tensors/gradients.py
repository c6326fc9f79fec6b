"""What a window's gradients come to, before they are cut for servers.

Pure.

Which gradients a step has used: what has not changed since is not used again.

Pure; called by the thread of the user's loop.

How large gradients usually are, and which are too large to be pushed.

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
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, final

import torch
from torch import nn

from paceline.config import Pace
from paceline.pace.guards import most_norm
from paceline.trainer.rows import EmbeddingRows, TableRows
from paceline.trainer.rows.routing import RowGradient
from paceline.trainer.verdicts import RefusedStep


class Gradients(NamedTuple):
    """What a window's gradients come to, in one process or in all of a trainer."""

    dense: dict[int, torch.Tensor]  # {parameter index: gradient}, sparse ones too
    rows: dict[str, list[RowGradient]]  # {table name: in the order of lookups}
    is_refused: bool = False  # they are not to be used


class GatherChoice(NamedTuple):
    """Which gradients a push takes; see `PartTensors.gather`."""

    with_step: bool
    only_fresh: bool


class Outline(NamedTuple):
    """What `PartTensors.gather` would find."""

    parameters: set[int]  # those with a gradient
    has_rows: bool  # of tables


Join = Callable[[Gradients, GatherChoice], Gradients]
"""What this process has -> what all processes of the trainer have together."""


def alone(gradients: Gradients, gathering: GatherChoice) -> Gradients:
    """A trainer of one process has what that process has."""
    del gathering
    return gradients


@final
class SpentGradients:
    """Gradients of a part's parameters as the last step found them."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        """No step has used any."""
        self._parameters = parameters
        # {parameter index: (its gradient at the last step, that gradient's version)}
        self._spent: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}

    def there(self, *, only_fresh: bool) -> dict[int, torch.Tensor]:
        """{parameter index: its gradient}, of those alone that no step has used if so."""
        return {
            index: parameter.grad
            for index, parameter in enumerate(self._parameters)
            if parameter.grad is not None
            and not (only_fresh and self._holds(index, parameter.grad))
        }

    def _holds(self, index: int, gradient: torch.Tensor) -> bool:
        spent = self._spent.get(index)
        return (
            spent is not None and spent[0]() is gradient and spent[1] == gradient._version
        )

    def spend(self) -> None:
        """A step has used all that there are."""
        self._spent = {
            index: (weakref.ref(gradient), gradient._version)
            for index, gradient in self.there(only_fresh=False).items()
        }


REMEMBERED: Final = 31
FEWEST: Final = 8  # norms from which something is usual


@final
class Norms:
    """Norms of one part's pushes at one trainer."""

    def __init__(self, pace: Pace) -> None:
        """Nothing is usual yet."""
        self._pace = pace
        self._last: deque[float] = deque(maxlen=REMEMBERED)

    def look(self, gradients: Iterable[torch.Tensor]) -> RefusedStep | None:
        """Look at all of a push; why it is not to be applied, or None if it is."""
        norm = norm_of(gradients)
        usual = statistics.median(self._last) if len(self._last) >= FEWEST else None
        self._last.append(norm)
        most = most_norm(self._pace, usual)
        if most is None or norm <= most:
            return None
        return RefusedStep(f"its norm is {norm:.4g}, and usually {usual:.4g}", norm)


def norms_of(pace: Pace) -> Norms | None:
    """What a trainer remembers of a part's norms; None if nothing asks for it."""
    guards = pace.guards
    return None if guards is None or guards.norm is None else Norms(pace)


def norm_of(gradients: Iterable[torch.Tensor]) -> float:
    """The Euclidean norm of all of them together."""
    return math.hypot(*(float(torch.linalg.vector_norm(one)) for one in gradients))


def drop_rows(tables: Iterable[EmbeddingRows | TableRows]) -> None:
    """What batches have left in tables for the next push is not to be in it."""
    for table in tables:
        table.drop()
