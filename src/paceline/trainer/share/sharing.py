"""Everything that a session has shared: which part holds what.

A table or parameter belongs to one part for good. A model shared later may hold tables
that are shared already: its step moves their part too.

Waits: for coordinator and servers, in `Sharing.share`. The thread of the user's loop calls.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import final

import torch
from torch import nn

from paceline.config import Auto, Combine, Pace
from paceline.errors import UsageError
from paceline.messages.shared import Beside, PartSpec, TableSpec
from paceline.pace.changing import begun
from paceline.pace.policy import steps_locally, why_not_beside
from paceline.pace.strategy import Strategy
from paceline.pace.tables import why_not_for_table, why_not_locked, why_not_replicated
from paceline.params.rows import Array, load_loops
from paceline.trainer.engine import (
    Scaled,
    SharedModel,
    forget_model,
    why_not_unshared,
)
from paceline.trainer.loop import to_be_set
from paceline.trainer.model import Frozen, Schedules, WatchedModel
from paceline.trainer.rows import Embedding, EmbeddingRows, TableRows
from paceline.trainer.seat import Seat
from paceline.trainer.share.description import (
    Described,
    agreed_tables,
    cut_local,
    describe,
    describe_local,
    table_of,
)
from paceline.trainer.share.optimizer import SharedOptimizer
from paceline.trainer.share.refusals import check_rows, warn_of_rows, why_not_part
from paceline.trainer.share.second_optimizers import SteppedParameters
from paceline.trainer.tensors import (
    Deltas,
    ModelTensors,
    PartSteps,
    TableManner,
    TableTensors,
    why_not_early,
)

_ENDED = (
    "step() of an optimizer whose model was unshared: share the model again, and keep the "
    "optimizer that this returns"
)
_NO_VALUES = (
    "cannot set values: make the change before session.share, or use --ranks-per-trainer 1"
)


@final
class Sharing:
    """The parts of one session.

    Attributes:
        models: all that were shared, whole.
        num_parts: that were shared, with those that have ended.
        num_refused: pushes of these that went without their gradients.
    """

    def __init__(self, seat: Seat) -> None:
        self.models: list[nn.Module] = []
        self.schedules = Schedules()
        self.num_parts = self.num_refused = 0
        self._seat, self._calls = seat, seat.membership.calls
        self._tables: dict[str, EmbeddingRows] = {}  # {name: table}
        self._own: dict[str, TableRows] = {}  # {name: table of the user's own}
        self._parameters: set[nn.Parameter] = set()
        self._paces: dict[int, Pace] = {}  # of the parts
        self._shared: dict[nn.Module, SharedModel] = {}

    def share(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        said: Pace | Strategy,
        *,
        overlap: bool,
        is_said: bool = True,
    ) -> SharedOptimizer:
        """Share what is new in a model as the next part, and bind its embeddings.

        ``is_said``: the pace was given for this model; otherwise it is the job's.

        Returns:
            The optimizer whose step moves the model's own part and those of its tables.

        Raises:
            UsageError: see `paceline.trainer.session.Session.share`; nothing is shared.
        """
        strategy = said if isinstance(said, Strategy) else None
        pace, auto = begun(said.preset if isinstance(said, Strategy) else said)
        modules = [module for module in model.modules() if isinstance(module, Embedding)]
        if steps_locally(pace):
            size, known = self._seat.size, self._tables
            described = describe_local(model, optimizer, pace, processes=size, known=known)
        else:
            described = describe(model, optimizer)
        named = zip(described.parameters, described.specs, strict=True)
        self.check_new({parameter: spec.names[0] for parameter, spec in named})
        if not described.specs and not modules:
            raise UsageError(
                "share: the model has neither trainable parameters nor embeddings"
            )
        new = self._new_tables(modules, optimizer)
        first = self.num_parts
        if described.specs or new:
            state = self._seat.tracker.name_buffers(self._first_part(modules))
            described = described._replace(frozen=Frozen(model, state))
            if is_said and not steps_locally(pace):  # with which rows must be shared before
                warn_of_rows(self._paces_of_rows(modules), said)
            marching = (pace, auto, strategy)
            pieces: list[tuple[Described, Deltas | None]] = [(described, None)]
            if steps_locally(pace) and optimizer is not None:
                pieces[:] = cut_local(described, optimizer, pace)
            for piece in pieces:
                self._add_part(piece, new, optimizer, marching, overlap=overlap)
        else:
            chosen = pace if is_said and strategy is None else None
            self._check_changes_nothing(modules, chosen, strategy, overlap=overlap)
        own = range(first, self.num_parts) if described.specs else ()
        return self._bind(model, modules, optimizer, described, own, pace)

    def _bind(
        self,
        model: nn.Module,
        modules: list[Embedding],
        optimizer: torch.optim.Optimizer | None,
        described: Described,
        own: Sequence[int],
        pace: Pace,
    ) -> SharedOptimizer:
        for module in modules:
            module.bind(self._tables[module.spec.name])
        self.models.append(model)
        watched = WatchedModel(model, self._parameters.__contains__)
        parts = tuple(sorted({self._tables[m.spec.name].part for m in modules}.union(own)))
        self._seat.numbers[parts[0]].models.append(watched)
        self._shared[model] = SharedModel(tuple(own), parts[0], watched, optimizer)
        self._seat.tracker.add_model(parts[0], model, optimizer)
        pairs = list(zip(described.parameters, described.specs, strict=True))
        shared = SharedOptimizer(
            optimizer,
            partial(self._step_all, parts),
            partial(self._drop_rows, parts),
            by_rows={p: spec.names[0] for p, spec in pairs if spec.has_sparse_gradients},
            steps_here=steps_locally(pace),
        )
        if optimizer is not None and not steps_locally(pace):
            names = {parameter: spec.names[0] for parameter, spec in pairs}
            shared.watched = SteppedParameters(optimizer, names, self._is_looping)
        for module in modules:  # gradients of its rows appear there
            self._tables[module.spec.name].show_in(shared.param_groups[-1]["params"])
        return shared

    def _is_looping(self) -> bool:
        return self._calls.loop is not None

    def check_new(self, names: Mapping[nn.Parameter, str]) -> None:
        """Refuse parameters, ``{parameter: its name}``, that are shared already.

        Raises:
            UsageError: one of them is.
        """
        for parameter, name in names.items():
            if parameter in self._parameters:
                raise UsageError(
                    f"share: {name!r} is shared already: share a model once, and keep the "
                    f"optimizer that this returned"
                )

    def note(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        """A model is shared whose parameters are in no part."""
        self.models.append(model)
        self._parameters.update(parameters)

    def _check_changes_nothing(
        self,
        modules: list[Embedding],
        chosen: Pace | None,
        strategy: Strategy | None,
        *,
        overlap: bool,
    ) -> None:
        """All rows of a model are shared: what is said of them is said too late."""
        for module in modules:
            numbers = self._seat.numbers[self._tables[module.spec.name].part]
            here = (numbers.pace, numbers.strategy, numbers.early is not None)
            name = module.spec.name
            check_rows(name, here, chosen, strategy, overlap=overlap)

    def _paces_of_rows(self, modules: list[Embedding]) -> dict[str, Pace | Strategy | None]:
        known = [self._tables[m.spec.name] for m in modules if m.spec.name in self._tables]
        found = {table.spec.name: self._seat.numbers[table.part] for table in known}
        return {name: one.strategy or one.pace for name, one in found.items()}

    def _add_part(
        self,
        piece: tuple[Described, Deltas | None],
        tables: tuple[TableSpec, ...],
        optimizer: torch.optim.Optimizer | None,
        marching: tuple[Pace, Auto | None, Strategy | None],
        *,
        overlap: bool,
    ) -> None:
        """Share a part, unless something speaks against it."""
        described, deltas = piece
        pace, auto, strategy = marching
        early = why_not_early(pace, described.parameters, processes=self._seat.size)
        if overlap and early is not None:
            raise UsageError(f"share: {early}")
        name = "" if strategy is None else str(strategy)
        part, specs = self.num_parts, described.specs
        whole = PartSpec(
            part,
            specs,
            described.optimizer,
            tables,
            pace,
            strategy=name,
            inner=described.inner,
            auto=auto,
            beside=Beside() if described.frozen is None else described.frozen.beside,
        )
        size, others = self._seat.size, list(self._paces.values())
        reason = why_not_part(whole, strategy, others, processes=size, overlap=overlap)
        if reason is not None:
            raise UsageError(f"share: {reason}")
        groups = [] if optimizer is None else optimizer.param_groups
        if deltas is not None:
            groups = list(described.optimizer.groups) if described.optimizer else []
        numbers = ModelTensors(
            PartSteps(described.parameters, groups, optimizer, deltas),
            pace,
            names=[spec.names[0] for spec in specs],
            sparse=[i for i, spec in enumerate(specs) if spec.has_sparse_gradients],
            strategy=strategy,
            frozen=described.frozen,
            sends_early=overlap,
        )
        if tables:
            load_loops()
        self._seat.share(whole, numbers)
        self._paces[part], self.num_parts = pace, part + 1
        agreed = agreed_tables(whole, self._seat.plan(part).spec)
        pairs = zip(agreed, whole.tables, strict=True)
        bound = [EmbeddingRows(spec, part, self._seat.reader, said) for spec, said in pairs]
        numbers.tables += bound
        self._tables |= {table.spec.name: table for table in bound}
        self._parameters.update(described.parameters)

    def add_table(
        self,
        spec: TableSpec,
        pace: Pace,
        begins: Array | None,
        *,
        atomic: bool = False,
        every: int | None = None,
        must_step: str = "",
    ) -> TableRows:
        """Share a table of the user's own as the next part.

        Args:
            spec: what it is.
            pace: of the part.
            begins: (rows, dim) that a dense table begins with, if it is told.
            atomic: what a batch writes to all tables that are, is there as a whole.
            every: batches after which a trainer's copy is fetched again, if it
                keeps one.
            must_step: the model of which every batch has a step.

        Raises:
            UsageError: the pace is none for tables (so), or the name is another table's.
        """
        reason = why_not_for_table(pace) or why_not_beside([*self._paces.values(), pace])
        if reason is None and atomic:
            reason = why_not_locked(pace)
        if reason is None and every is not None:
            assert isinstance(spec.optimizer, Combine)
            reason = why_not_replicated(pace, spec.optimizer, every)
        if reason is None and spec.name in {*self._tables, *self._own}:
            reason = f"{spec.name!r} is the name of another table of this job"
        if reason is not None:
            raise UsageError(f"table {spec.name!r}: {reason}")
        seat = self._seat.alone(f"table {spec.name!r}", "has no tables of its own yet")
        part = PartSpec(self.num_parts, (), None, (spec,), pace)
        rows = TableRows(spec, part.part, self._seat.reader, begins)
        manner = TableManner(atomic, must_step)
        load_loops()
        seat.share(part, TableTensors(rows, pace, manner))
        self._paces[part.part], self.num_parts = pace, part.part + 1
        self._own[spec.name] = rows
        return rows

    def set_values(self, model: nn.Module) -> None:
        """Let the values of a shared model here be everybody's.

        Raises:
            UsageError: see `paceline.trainer.session.Session.set_values`.
        """
        wanted = to_be_set(model, self._seat.numbers)
        self._seat.alone("set_values", _NO_VALUES).set_values(wanted)

    def unshare(self, model: nn.Module) -> None:
        """Let a shared model be the script's own again.

        Raises:
            UsageError: see `paceline.trainer.session.Session.unshare`.
        """
        seat, kind = self._seat.alone("unshare"), type(model).__name__
        shared, numbers = self._shared.get(model), seat.numbers
        is_between = shared is None and model in self.models
        reason = why_not_unshared(kind, shared, numbers, is_between=is_between)
        if reason is not None:
            raise UsageError(reason)
        assert shared is not None
        for part in shared.parts:
            self._parameters.difference_update(numbers[part].parameters)
            self.num_refused += numbers[part].gradients.refused
            seat.unshare(part)
            del self._paces[part]
        forget_model(shared, numbers, self.schedules)
        self.models.remove(model)
        del self._shared[model]

    def _first_part(self, modules: list[Embedding]) -> int:
        """The lowest part that a model is to have something in."""
        names = [module.spec.name for module in modules]
        known = [self._tables[name].part for name in names if name in self._tables]
        return min(known, default=self.num_parts)

    def _step_all(self, parts: tuple[int, ...], scaled: Scaled) -> None:
        """A step of several parts; see `TrainerEngine.step_all`.

        Parts with local steps take theirs first, by the trainer's own optimizer; none with
        gradients that are not finite, which would stay in its state.
        """
        if not self._calls.begin_step():
            return
        try:
            found = [self._seat.numbers[part] for part in parts]
        except KeyError:
            raise UsageError(_ENDED) from None
        for numbers in found:
            for model in numbers.models:
                model.check_step()
        if self.schedules.all:
            self.schedules.set_rates(self._seat.trained())
        if any(one.steps.deltas is not None for one in found):
            self._step_here(found, scaled)
        self._seat.step_all(parts, scaled=scaled)

    def _step_here(self, found: list[ModelTensors], scaled: Scaled) -> None:
        is_finite = scaled != "not finite" and all(one.is_finite() for one in found)
        for numbers in found:
            if numbers.steps.deltas is None:
                continue
            if is_finite:
                numbers.steps.deltas.step()
            else:
                numbers.gradients.refuse()

    def _drop_rows(self, parts: tuple[int, ...]) -> None:
        for part in parts:
            for table in self._seat.numbers[part].tables:
                table.drop()

    def _new_tables(
        self, modules: list[Embedding], optimizer: torch.optim.Optimizer | None
    ) -> tuple[TableSpec, ...]:
        """Tables that are not shared yet, in the order of the model."""
        new: dict[str, TableSpec] = {}
        for module in modules:
            known = self._tables.get(module.spec.name)
            spec = table_of(module, optimizer, known)
            if spec.name in self._own:
                raise UsageError(
                    f"share: {spec.name!r} is the name of a table; name the embedding anew"
                )
            agreed = known.spec if known is not None else new.setdefault(spec.name, spec)
            if agreed != spec:
                raise UsageError(
                    f"share: the embedding {spec.name!r} is {agreed} in one place and "
                    f"{spec} in another; give one of them another name"
                )
        return tuple(new.values())
