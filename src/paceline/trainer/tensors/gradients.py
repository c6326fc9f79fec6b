"""What a window's gradients come to, before they are cut for servers.

Gradients of several batches are summed, as calling backward several times would. What a
step has used, and what has not changed since, is not used again.

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
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, final

import msgspec
import torch
from torch import nn

from paceline.config import Pace
from paceline.pace.guards import most_norm
from paceline.trainer.encoding import are_plain, plain
from paceline.trainer.rows import EmbeddingRows, TableRows
from paceline.trainer.rows.routing import RowGradient
from paceline.trainer.tensors.sparse_weights import sparse_on_cpu
from paceline.trainer.verdicts import RefusedStep


class Gradients(NamedTuple):
    """What a window's gradients come to, in one process or in all of a trainer."""

    dense: dict[int, torch.Tensor]  # {parameter index: gradient}, sparse ones too
    rows: dict[str, list[RowGradient]]  # {table name: in the order of lookups}
    is_refused: bool = False  # they are not to be used


class GatherChoice(NamedTuple):
    """Which gradients a push takes beside those that were kept."""

    with_step: bool = True  # those of a batch that were not kept yet
    only_fresh: bool = False  # of these, what a backward has touched since the last step


WHOLE_STEP = GatherChoice()


class Loaded(msgspec.Struct, frozen=True):
    """What a push that is held ready comes to."""

    refusal: RefusedStep | None = None  # why it is to have no effect
    is_finite: bool = True  # all gradients were, and the codec can take them


NOT_FINITE = RefusedStep("its gradients are not finite, or beyond its codec")


class Outline(NamedTuple):
    """What `ModelTensors.gather` would find."""

    parameters: set[int]  # those with a gradient
    has_rows: bool  # of tables


_GRADIENT: Final = attrgetter("grad")
_VERSION: Final = attrgetter("_version")

Join = Callable[[Gradients, GatherChoice], Gradients]
"""What this process has -> what all processes of the trainer have together."""


@final
class StepGradients:
    """Gradients of a part in one process: of this step, and of those kept before it.

    Attributes:
        sparse: indices of parameters with sparse gradients.
        is_refused: no gradient of this step is to be used.
        refused: pushes of which nothing was sent, or steps of which nothing was kept.
        kept: {parameter index: the sum that waits}.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        sparse: Collection[int],
        tables: Sequence[EmbeddingRows | TableRows],
    ) -> None:
        self.sparse = frozenset(sparse)
        self._parameters, self._tables = parameters, tables
        self.is_refused, self.refused = False, 0
        # A `GradScaler` steps; what no step has unscaled is no gradient yet.
        self._is_scaled = False
        self.kept: dict[int, torch.Tensor] = {}
        self._kept_rows: dict[str, list[RowGradient]] = {}  # {table name: waiting}
        # {parameter index: (its gradient at the last step, that gradient's version)}
        self._spent: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}

    def there(self, *, only_fresh: bool) -> dict[int, torch.Tensor]:
        """{parameter index: its gradient}, plain; ``only_fresh``: that no step has used."""
        found = self._found(only_fresh=only_fresh)
        if not self.sparse and are_plain(found.values()):
            return found
        return {
            index: (sparse_on_cpu if index in self.sparse else plain)(gradient)
            for index, gradient in found.items()
        }

    def begin_step(self, *, is_scaled: bool) -> None:
        """The user steps, with a `GradScaler` or without."""
        self._is_scaled = is_scaled

    def refuse(self) -> None:
        """Use none of this step's, as where one is not finite."""
        self.is_refused = True

    def has_unscaled(self) -> bool:
        """Whether a backward has left some that only a `GradScaler` knows the scale of."""
        return self._is_scaled and self.has_fresh()

    def has_fresh(self) -> bool:
        """Whether a backward has left gradients here since the last step."""
        has_rows = any(table.waiting() for table in self._tables)
        return has_rows or bool(self._found(only_fresh=True))

    def outline(self, choice: GatherChoice) -> Outline:
        """What `gather` would find; nothing moves."""
        with_step, only_fresh = choice
        there = self._found(only_fresh=only_fresh) if with_step else {}
        has_rows = with_step and any(table.waiting() for table in self._tables)
        return Outline({*self.kept, *there}, has_rows or bool(self._kept_rows))

    def gather(self, choice: GatherChoice) -> Gradients:
        """What was kept, with this step's; rows' wait here until `clear`.

        Those of a refused step are left out.
        """
        is_refused, self.is_refused = self.is_refused, False
        if choice.with_step and is_refused:
            self.drop_rows()
        there = {}
        if choice.with_step and not is_refused:
            there = self.there(only_fresh=choice.only_fresh)
            for index in self.kept.keys() & there.keys():
                there[index] = self.kept[index].to(there[index].device) + there[index]
            self._keep_rows()
        return Gradients({**self.kept, **there}, dict(self._kept_rows))

    def keep(self, *, with_dense: bool) -> None:
        """Those of this step wait for the next push, with those before them."""
        if self.is_refused:
            self.is_refused = False
            self.refused += 1
            self.skip()
            return
        own = self.there(only_fresh=False) if with_dense else {}
        for index, gradient in own.items():
            kept = self.kept.get(index)
            if kept is None:
                self.kept[index] = gradient.clone()
            elif index in self.sparse:
                self.kept[index] = kept + gradient  # rows side by side, not summed yet
            else:
                self.kept[index] = kept.to(gradient.device).add_(gradient)
        self._keep_rows()
        self._spend()

    def skip(self) -> None:
        """Those of this step are used by none."""
        self.drop_rows()
        self._spend()

    def clear(self) -> None:
        """Nothing waits any more, whatever became of it."""
        self.is_refused = False
        self.kept.clear()
        self._kept_rows.clear()
        self.skip()

    def drop_rows(self) -> None:
        """What batches have left in tables for the next push is not to be in it."""
        for table in self._tables:
            table.drop()

    def zero(self, *, only_unspent: bool = False) -> None:
        """Drop the parameters' own, or those that no step has used: their batch is gone."""
        for index in self._found(only_fresh=only_unspent):
            self._parameters[index].grad = None

    def _found(self, *, only_fresh: bool) -> dict[int, torch.Tensor]:
        gradients = enumerate(map(_GRADIENT, self._parameters))
        found = {index: one for index, one in gradients if one is not None}
        if only_fresh:
            return {i: one for i, one in found.items() if not self._holds(i, one)}
        return found

    def _holds(self, index: int, gradient: torch.Tensor) -> bool:
        spent = self._spent.get(index)
        return (
            spent is not None and spent[0]() is gradient and spent[1] == gradient._version
        )

    def _spend(self) -> None:
        found = self._found(only_fresh=False)
        there = found.values()
        marks = zip(map(weakref.ref, there), map(_VERSION, there), strict=True)
        self._spent = dict(zip(found, marks, strict=True))

    def _keep_rows(self) -> None:
        for table in self._tables:
            if recorded := table.take():
                self._kept_rows.setdefault(table.spec.name, []).extend(recorded)


REMEMBERED: Final = 31
FEWEST: Final = 8  # norms from which something is usual


@final
class Norms:
    """Norms of one part's pushes at one trainer."""

    def __init__(self, pace: Pace) -> None:
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
