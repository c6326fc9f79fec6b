"""Everything that a session has shared: which part holds what.

A table or parameter belongs to one part for good. A model shared later may hold tables
that are shared already: its step moves their part too.

Waits: for coordinator and servers, in `Sharing.share`. The thread of the user's loop calls.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import nn

from paceline.config import Pace
from paceline.errors import UsageError
from paceline.messages import PartSpec, TableSpec
from paceline.pace.fragments import overlap_of
from paceline.pace.policy import (
    outer_step,
    overlaps,
    steps_locally,
    why_not_beside,
)
from paceline.params.hogwild import why_not_hogwild
from paceline.trainer.carrier import Scaled
from paceline.trainer.deltas import Deltas
from paceline.trainer.describing import Described, describe, describe_local
from paceline.trainer.early import why_not_early
from paceline.trainer.embedding import Embedding
from paceline.trainer.fragments import cut_local
from paceline.trainer.gradients import PartNumbers
from paceline.trainer.seat import Seat
from paceline.trainer.tables import SharedTable


@final
class Sharing:
    """The parts of one session.

    Attributes:
        models: all that were shared, whole.
    """

    def __init__(self, seat: Seat) -> None:
        """Nothing is shared yet."""
        self.models: list[nn.Module] = []
        self._seat = seat
        self._tables: dict[str, SharedTable] = {}  # {name: table}
        self._parameters: set[nn.Parameter] = set()
        self._paces: list[Pace] = []  # of the parts

    def share(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        pace: Pace,
        *,
        overlap: bool,
    ) -> tuple[int, ...]:
        """Share what is new in a model as the next part, and bind its embeddings.

        Returns:
            The parts that a step of this model moves, ascending.

        Raises:
            UsageError: see `paceline.trainer.session.Session.share`; nothing is shared.
        """
        if steps_locally(pace):
            described = self._describe_local(model, optimizer, pace)
        else:
            described = describe(model, optimizer)
        for parameter, spec in zip(described.parameters, described.specs, strict=True):
            if parameter in self._parameters:
                raise UsageError(f"share: {spec.names[0]!r} is shared already")
        modules = [module for module in model.modules() if isinstance(module, Embedding)]
        if not described.specs and not modules:
            raise UsageError(
                "share: the model has neither trainable parameters nor embeddings"
            )
        new = self._new_tables(modules)
        own: list[int] = []
        if described.specs or new:
            if overlap:
                _check_early(pace, described.parameters, self._seat.size)
            own = self._share_parts(described, optimizer, new, pace, overlap=overlap)
        for module in modules:
            module.bind(self._tables[module.spec.name])
        self.models.append(model)
        parts = {self._tables[module.spec.name].part for module in modules}
        return tuple(sorted(parts.union(own if described.specs else ())))

    def _share_parts(
        self,
        described: Described,
        optimizer: torch.optim.Optimizer | None,
        new: tuple[TableSpec, ...],
        pace: Pace,
        *,
        overlap: bool,
    ) -> list[int]:
        """Share a model as one part, or as its fragments; their numbers."""
        reason = why_not_beside([*self._paces, pace])
        if reason is not None:
            raise UsageError(f"share: {reason}")
        pieces: list[tuple[Described, Deltas | None]] = [(described, None)]
        groups = [] if optimizer is None else optimizer.param_groups
        if steps_locally(pace) and optimizer is not None:
            pieces[:] = cut_local(described, optimizer, pace)
            groups = [outer_step(pace)]
        own = []
        for piece, deltas in pieces:
            sparse = [i for i, s in enumerate(piece.specs) if s.has_sparse_gradients]
            numbers = PartNumbers(
                piece.parameters,
                groups,
                sparse=sparse,
                apart=overlaps(pace) or overlap_of(pace) > 0,
                deltas=deltas,
                sends_early=overlap,
            )
            own.append(self._share_part(piece, numbers, new, pace))
        self._paces.append(pace)
        return own

    def _share_part(
        self,
        described: Described,
        numbers: PartNumbers,
        new: tuple[TableSpec, ...],
        pace: Pace,
    ) -> int:
        part = len(self._seat.numbers)
        whole = PartSpec(part, described.specs, described.optimizer, new, pace)
        reason = why_not_hogwild(whole)
        if reason is not None:
            raise UsageError(f"share: {reason}")
        self._seat.share(whole, numbers)
        numbers.tables += [SharedTable(spec, part, self._seat) for spec in new]
        self._tables |= {table.spec.name: table for table in numbers.tables}
        self._parameters.update(described.parameters)
        return part

    def step_all(self, parts: tuple[int, ...], scaled: Scaled) -> None:
        """A step of several parts; see `paceline.trainer.carrier.Carrier.step_all`.

        Parts with local steps take theirs first, by the trainer's own optimizer; none with
        gradients that are not finite, which would stay in its state.
        """
        self._step_here(parts, scaled)
        self._seat.step_all(parts, scaled=scaled)

    def _step_here(self, parts: tuple[int, ...], scaled: Scaled) -> None:
        found = [self._seat.numbers[part] for part in parts]
        local = [numbers for numbers in found if numbers.deltas is not None]
        if not local:
            return
        is_finite = scaled != "not finite" and all(one.is_finite() for one in found)
        for numbers in local:
            assert numbers.deltas is not None
            if is_finite:
                numbers.deltas.step()
            else:
                numbers.refuse()

    def _describe_local(
        self, model: nn.Module, optimizer: torch.optim.Optimizer | None, pace: Pace
    ) -> Described:
        """As `describe`, of a part that the servers move by one outer optimizer."""
        if self._seat.size > 1:
            raise UsageError(
                f"share: {pace} takes steps in each process by itself, and a trainer of "
                f"{self._seat.size} acts as one: use --ranks-per-trainer 1"
            )
        tables = [m.spec.name for m in model.modules() if isinstance(m, Embedding)]
        new = [name for name in tables if name not in self._tables]
        if optimizer is None or new:
            what = f"the rows of {new[0]!r}" if new else "a model of embeddings"
            raise UsageError(
                f"share: {pace} moves dense parameters, and {what} cannot be stepped here: "
                f"share embeddings first, as a part of their own with another pace"
            )
        return describe_local(model, optimizer, outer_step(pace))

    def show_rows(self, model: nn.Module, params: list[torch.Tensor]) -> None:
        """Let gradients of a model's rows appear in a parameter group's ``params``."""
        for module in model.modules():
            if isinstance(module, Embedding):
                self._tables[module.spec.name].show_in(params)

    def drop_rows(self, parts: tuple[int, ...]) -> None:
        """Forget the gradients of rows that no step has used."""
        for part in parts:
            for table in self._seat.numbers[part].tables:
                table.take()

    def _new_tables(self, modules: list[Embedding]) -> tuple[TableSpec, ...]:
        """Tables that are not shared yet, in the order of the model."""
        new: dict[str, TableSpec] = {}
        for module in modules:
            spec = module.spec
            known = self._tables.get(spec.name)
            agreed = known.spec if known is not None else new.setdefault(spec.name, spec)
            if agreed != spec:
                raise UsageError(
                    f"share: the embedding {spec.name!r} is {agreed} in one place and "
                    f"{spec} in another; give one of them another name"
                )
        return tuple(new.values())


def _check_early(pace: Pace, parameters: Sequence[nn.Parameter], processes: int) -> None:
    reason = why_not_early(pace, parameters, processes=processes)
    if reason is not None:
        raise UsageError(f"share: {reason}")
