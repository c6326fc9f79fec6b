"""The numbers of a model's part at one trainer: what its uploads, pushes and pulls carry.

::

    p.grad --keep--> accumulated        a step that the pace keeps
    accumulated + p.grad --load-->      a step that is pushed: held until acknowledged
    push to server s  =  the blocks and rows of it that lie on s
Called by the thread of the user's loop; landings write from whichever thread receives.
"""

import logging
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Final, final

import torch
from torch import nn

from paceline.config import Pace
from paceline.messages.data import KeepFrozen, Pull, Push, Upload
from paceline.messages.shared import Message, PartPlan, PartSpec
from paceline.messages.values import SetValues
from paceline.pace.policy import pushes_overlap, round_overlap
from paceline.pace.strategy import Strategy
from paceline.params.sparse import SparseGradient
from paceline.trainer.client import Payload
from paceline.trainer.encoding import Packed, PartMemory, packed
from paceline.trainer.model import Frozen, WatchedModel, WatchedValues
from paceline.trainer.rows import EmbeddingRows
from paceline.trainer.rows.routing import merge
from paceline.trainer.tensors.backward_overlap import EarlySender
from paceline.trainer.tensors.gradients import (
    NOT_FINITE,
    WHOLE_STEP,
    GatherChoice,
    Gradients,
    Join,
    Loaded,
    StepGradients,
)
from paceline.trainer.tensors.local_steps import PartSteps
from paceline.trainer.tensors.payload import NO_TENSORS, Load, PartLoad, counted, hyper_of
from paceline.trainer.tensors.shared_memory_pulls import DirectPulls
from paceline.trainer.tensors.sparse_weights import RowPulls, coalesced
from paceline.transport.frames import ByteArray

_IS_CPU: Final = attrgetter("is_cpu")

_log = logging.getLogger("paceline.trainer")


@final
class PulledValues:
    """Values of a part's parameters, on their way here.

    Attributes:
        memory: of its parameters; what is pulled may be ``apart``: it comes while the user
            computes, and waits for `settle`.
        has_landed: values have come and are not settled.
        pulls: the questions for them.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, apart: bool) -> None:
        self.memory = PartMemory(parameters, apart=apart)
        self.has_landed = False
        self.pulls: DirectPulls | RowPulls = DirectPulls(self.memory, self._land)

    def follow(self, plan: PartPlan, *, has_sparse: bool) -> None:
        """The part lies so, and its values travel so."""
        rows = RowPulls(self.memory, self._land)
        rows.follow(plan)
        self.pulls = rows
        if not has_sparse and not rows.are_coded:
            self.pulls = DirectPulls(self.memory, self._land)
            self.pulls.follow(plan)

    def read(self, slots: Sequence[int], plan: PartPlan) -> list[ByteArray]:
        """What the parameters are now, of these slots."""
        blocks = {block.slot: block for block in plan.blocks}
        found = [blocks[slot] for slot in slots]
        return [self.memory[block.parameter].read(block) for block in found]

    def settle(self) -> None:
        """What has landed is what the parameters are."""
        self.has_landed = False
        self.memory.settle()

    def _land(self) -> None:
        self.has_landed = True


@final
class ModelTensors:
    """Parameters, embeddings and gradients of one part; see `PartTensors`.

    Attributes:
        parameters: dense ones, in the order of the part.
        tables: of its embeddings, once they are agreed on.
        strategy: the user's own, if there is one.
        watched: what the script itself does to the parameters.
        frozen: parameters of the model that nothing trains.
        early: what of the next push was sent already, where gradients are sent while
            backward still runs.
    """

    def __init__(
        self,
        steps: PartSteps,
        pace: Pace,
        *,
        names: Sequence[str] = (),
        sparse: Collection[int] = (),
        strategy: Strategy | None = None,
        frozen: Frozen | None = None,
        sends_early: bool = False,
    ) -> None:
        """``names``: of parameters, as errors say them; ``sparse``: see `StepGradients`."""
        self.steps, self.parameters = steps, steps.parameters
        self.pace, self.strategy, self.frozen = pace, strategy, frozen
        self.tables: list[EmbeddingRows] = []
        self.models: list[WatchedModel] = []
        self.watched = WatchedValues(self.parameters, names)
        self.early = EarlySender(self.parameters) if sends_early else None
        self.gradients = StepGradients(self.parameters, sparse, self.tables)
        is_apart = pushes_overlap(pace) or round_overlap(pace) > 0
        self.values = PulledValues(self.parameters, apart=is_apart)
        self._join: Join | None = None
        self._ready = PartLoad()
        self._plan: PartPlan | None = None

    def join_by(self, join: Join) -> None:
        """From now on pushes carry what all processes of the trainer have."""
        self._join = join

    def take_pace(self, spec: PartSpec, *, is_lost: bool = False) -> None:
        """See `PartTensors`."""
        deltas, pace = self.steps.deltas, spec.pace
        if is_lost:
            self._ready.forget()
            if deltas is not None:
                deltas.forget()
        if self.pace == pace:
            return
        dropped = " (the state of its optimizer is dropped)" if deltas else ""
        _log.info("part %d: %s instead of %s%s", spec.part, pace, self.pace, dropped)
        self.pace = pace
        self.values.memory.let_land(apart=pushes_overlap(pace))
        if self.early is not None:
            self.early.take_pace(pace)
        self.steps.follow(spec)

    def attach(self, role: str, message: Message, plan: PartPlan) -> Payload:
        """See `PartTensors`."""
        if plan is not self._plan:
            self._follow(plan)
        if isinstance(message, Pull):
            return self.values.pulls.payload(role, message)
        if isinstance(message, Push):
            early = {} if self.early is None else self.early.take(role)
            return self._ready.push(role, message, early)
        if isinstance(message, Upload | SetValues):
            return Payload(message, self.values.read(message.slots, plan))
        if isinstance(message, KeepFrozen):
            assert self.frozen is not None
            return Payload(message, self.frozen.piece(message.first, message.stop))
        return Payload(message)

    def _follow(self, plan: PartPlan) -> None:
        self._plan = plan
        self._ready.follow(plan)
        self.values.follow(plan, has_sparse=bool(self.gradients.sparse))

    def settle(self, *, mixes: bool = False) -> None:
        """After a pull: what has landed is what the parameters are, or is mixed in."""
        if self.values.has_landed:
            deltas = self.steps.deltas
            own = deltas.own_values() if deltas is not None and mixes else []
            self.values.settle()
            if deltas is not None:
                deltas.anchor(own)
            self.watched.settled()

    def is_finite(self) -> bool:
        """Whether all gradients of this step are finite, and the codec can take them."""
        rows = [gradient for table in self.tables for gradient in table.waiting()]
        return self._ready.fits([*self.gradients.there(only_fresh=False).values(), *rows])

    def keep(self) -> None:
        """See `PartTensors`."""
        self.gradients.keep(with_dense=self.steps.deltas is None)

    def load(
        self, plan: PartPlan, choice: GatherChoice = WHOLE_STEP, *, is_decided: bool = False
    ) -> Loaded:
        """See `PartTensors`."""
        is_refused, (with_step, only_fresh) = self.gradients.is_refused, choice
        gathered = self.gather(choice)
        if self._join is not None:
            choice = GatherChoice(with_step and not is_refused, only_fresh)
            gathered = self._join(gathered, choice)
        return self.hold(plan, gathered, is_refused=is_refused, is_decided=is_decided)

    def hold(
        self,
        plan: PartPlan,
        gathered: Gradients,
        *,
        is_refused: bool = False,
        is_decided: bool = False,
    ) -> Loaded:
        """As `load`, with what was gathered; without this step, if it ``is_refused``."""
        if plan is not self._plan:
            self._follow(plan)
        dense, kept_rows, is_void = gathered
        if is_void:
            dense, kept_rows = {}, {}
        if not all(map(_IS_CPU, dense.values())):
            dense = self._ready.host.wait_host(dense)
        by_index: dict[int, SparseGradient] = {}
        if sparse := self.gradients.sparse:
            by_index = {i: coalesced(dense.pop(i)) for i in sparse if i in dense}
        rows = tuple([merge(table, plan, one) for table, one in kept_rows.items()])
        as_bytes = packed(dense)
        found, by_rows = self._unseen(as_bytes), []
        if by_index or rows:
            by_rows = [one.values for one in by_index.values()]
            found += [*by_rows, *[row.gradient for row in rows if row.has_sums]]
        is_finite = not is_void and self._ready.fits(found)
        has_nothing = is_refused and not (dense or by_index or rows)
        refusal = None if is_finite and not has_nothing else NOT_FINITE
        norms = self._ready.norms
        if norms is not None and refusal is None and not is_decided:
            by_rows += [row.gradient for row in rows]
            refusal = norms.look([*dense.values(), *by_rows])
        if refusal is not None:
            as_bytes, by_index, rows, kept_rows = NO_TENSORS, {}, (), {}
            if self.early is not None:
                self.early.name(())
        self.gradients.refused += is_refused or not is_finite
        hyper = hyper_of(self.steps.groups)
        stepped = counted(plan, hyper, kept_rows) if kept_rows else ()
        load = Load(hyper, sparse=by_index, rows=rows, stepped=stepped)
        self._ready.hold(load, as_bytes, self.parameters)
        return Loaded(refusal, is_finite)

    def _unseen(self, dense: Packed) -> list[torch.Tensor]:
        """Gradients that nobody has looked at: what has gone early is finite."""
        if self.early is None:
            return [*dense.copies, *dense.own.values()]
        named = self.early.name(dense.stretches.keys() - self.gradients.kept.keys())
        own = [gradient for index, gradient in dense.own.items() if index not in named]
        return [*dense.copies, *own]

    def gather(self, choice: GatherChoice) -> Gradients:
        """What this process has for a push: what was kept, with this step's gradients.

        Rows' gradients wait here until `clear`; those of a refused step are left out.
        """
        if self.steps.deltas is not None:
            self.gradients.is_refused = False
            return Gradients(self.steps.deltas.take(), {})
        return self.gradients.gather(choice)

    def clear(self, *, is_flying: bool = False) -> None:
        """See `PartTensors`."""
        if not is_flying:
            self._ready.clear()
        self.gradients.clear()
        if self.early is not None:
            self.early.clear(is_flying=is_flying)
