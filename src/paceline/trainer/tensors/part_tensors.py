"""The numbers of one part at one trainer: what its uploads, pushes and pulls carry.

::

    p.grad --keep--> accumulated        a step that the pace keeps
    accumulated + p.grad --load-->      a step that is pushed: held until acknowledged
    push to server s  =  the blocks and rows of it that lie on s
Called by the thread of the user's loop; landings write from whichever thread receives.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, final

import torch
from torch import nn

from paceline.config import Pace
from paceline.messages.data import KeepFrozen, Pull, Push, Upload
from paceline.messages.shared import Message, PartPlan
from paceline.messages.values import SetValues
from paceline.pace.guards import compensation_of
from paceline.pace.strategy import Strategy
from paceline.trainer.client import Payload
from paceline.trainer.encoding import (
    GradientCoding,
    HostGradients,
    ParameterMemory,
    all_finite,
    byte_array,
    on_cpu,
)
from paceline.trainer.model import Frozen, WatchedModel, WatchedValues
from paceline.trainer.rows import EmbeddingRows, TableRows
from paceline.trainer.rows.routing import merge
from paceline.trainer.tensors.backward_overlap import EarlySender
from paceline.trainer.tensors.gradients import (
    GatherChoice,
    Gradients,
    Join,
    Norms,
    StepGradients,
    norms_of,
)
from paceline.trainer.tensors.local_steps import Deltas
from paceline.trainer.tensors.payload import (
    NOTHING,
    Layout,
    Load,
    counted,
    hyper_of,
    layout_of,
    push_with,
)
from paceline.trainer.tensors.shared_memory_pulls import DirectPulls
from paceline.trainer.tensors.sparse_weights import RowPulls, coalesced
from paceline.trainer.verdicts import RefusedStep
from paceline.transport.frames import ByteArray

_NOT_FINITE = RefusedStep("its gradients are not finite, or beyond its codec")


class TableManner(NamedTuple):
    """How the user writes to a table of his own.

    ``is_atomic``: what tables write in a batch is there together or not at all;
    ``must_step``: the model of which every batch has a step; empty: there is none.
    """

    is_atomic: bool = False
    must_step: str = ""


@final
class PartTensors:
    """Parameters, tables and gradients of one part.

    Attributes:
        deltas: steps are taken here, and pushes say how far they have led.
        strategy: the user's own, if there is one.
        groups, optimizer, pace: as `paceline.trainer.tensors.repacing` has them.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        groups: Sequence[dict[str, Any]],
        *,
        sparse: Collection[int] = (),
        apart: bool = False,
        deltas: Deltas | None = None,
        strategy: Strategy | None = None,
        sends_early: bool = False,
    ) -> None:
        self.deltas, self.strategy = deltas, strategy
        self.tables: list[EmbeddingRows | TableRows] = []  # the part's tables
        # What is pushed is what the user writes to a table, not gradients; and how.
        self.table: TableManner | None = None
        # Pushes whose gradients were not finite, so that nothing of them was sent.
        self.refused = 0
        # Why what is loaded is to have no effect; None if it is to have one.
        self.refusal: RefusedStep | None = None
        self.norms: Norms | None = None  # of pushes, where the pace bounds them
        self.frozen: Frozen | None = None  # parameters of the model that nothing trains
        # A `GradScaler` steps; what no step has unscaled is no gradient yet.
        self.is_scaled = False
        # Brings in what other processes of the trainer have, if it has any.
        self.join: Join | None = None
        # Dense gradients go to the host when they are joined, not before.
        self.joins_on_gpu = False
        # What of the next push was sent already, where gradients are sent while backward
        # still runs.
        self.early = EarlySender(parameters) if sends_early else None
        self.is_refused = False  # no gradient of this step is to be used
        self.parameters = tuple(parameters)  # dense ones, in the order of the part
        # What the script itself does to the parameters.
        self.watched = WatchedValues((), ())
        self.models: list[WatchedModel] = []  # those that were shared with it
        self.groups = groups
        self.optimizer: torch.optim.Optimizer | None = None
        self.pace: Pace | None = None
        self.sparse = frozenset(sparse)  # which of them have sparse gradients
        # Of its parameters; pulled values may be ``apart``: they come while the user
        # computes, and wait for `settle`.
        self.memory = [ParameterMemory(parameter, apart=apart) for parameter in parameters]
        self.has_landed = False  # values have come and are not settled
        self._pulls: DirectPulls | RowPulls = DirectPulls(self.memory, self._land)
        self._coding: GradientCoding | None = None
        self._sends_values = False  # those that gradients were computed on, with them
        self._host = HostGradients()
        # What waits for a push.
        self.gradients = StepGradients(self.parameters, self.sparse, self.tables)
        self._load = NOTHING
        self._layout: Layout = {}
        self._plan: PartPlan | None = None

    @classmethod
    def of_table(cls, manner: TableManner) -> "PartTensors":
        """Those of a table of the user's own."""
        numbers = cls((), ())
        numbers.table = manner
        return numbers

    def follow_pace(self, pace: Pace) -> None:
        """What is pushed from now on is of this pace."""
        self.pace, self.norms = pace, norms_of(pace)
        self._sends_values = compensation_of(pace) is not None

    def attach(self, role: str, message: Message, plan: PartPlan) -> Payload:
        """The message with this part's numbers."""
        if plan is not self._plan:
            self._follow(plan)
        if isinstance(message, Pull):
            return self._pulls.payload(role, message)
        if isinstance(message, Push):
            return self._push(role, message)
        if isinstance(message, Upload | SetValues):
            return Payload(message, self._values(message.slots, plan))
        if isinstance(message, KeepFrozen):
            assert self.frozen is not None
            return Payload(message, self.frozen.piece(message.first, message.stop))
        return Payload(message)

    def _follow(self, plan: PartPlan) -> None:
        """The part lies so, and its numbers travel so."""
        self._plan, self._layout = plan, layout_of(plan)
        if plan.spec.pace.codec is None:
            self._coding = None
        else:
            self._coding = self._coding or GradientCoding()
            self._coding.follow(plan)
        rows = RowPulls(self.memory, self._land)
        rows.follow(plan)
        self._pulls = rows
        if not self.sparse and not rows.are_coded:
            self._pulls = DirectPulls(self.memory, self._land)
            self._pulls.follow(plan)

    def settle(self, *, mixes: bool = False) -> None:
        """After a pull: what has landed is what the parameters are, or is mixed in."""
        if self.has_landed:
            self.has_landed = False
            own = self.deltas.own_values() if self.deltas is not None and mixes else []
            for memory in self.memory:
                memory.settle()
            if self.deltas is not None:
                self.deltas.anchor(own)
            self.watched.settled()

    def _values(self, slots: Sequence[int], plan: PartPlan) -> list[ByteArray]:
        blocks, found = {block.slot: block for block in plan.blocks}, []
        for slot in slots:
            if (block := blocks.get(slot)) is not None:
                found.append(self.memory[block.parameter].read(block))
                continue
            [table] = self.tables
            assert isinstance(table, TableRows), "rows of embeddings begin by themselves"
            found.append(table.initial(slot, plan))
        return found

    def _land(self) -> None:
        self.has_landed = True

    def _push(self, server: str, push: Push) -> Payload:
        if self._coding is not None:
            self._coding.sent()
        early = {} if self.early is None else self.early.take(server)
        here = self._layout.get(server, ())
        return push_with(self._load, push, server, here, self._coding, early)

    def is_finite(self) -> bool:
        """Whether all gradients of this step are finite, and the codec can take them."""
        rows = [gradient for table in self.tables for gradient in table.waiting()]
        return self._fits([*self.gradients.there(only_fresh=False).values(), *rows])

    def _fits(self, gradients: Sequence[torch.Tensor]) -> bool:
        is_finite = all_finite(gradients)
        return is_finite and (self._coding is None or self._coding.fits(gradients))

    def refuse(self) -> None:
        """Use no gradient of this step, as `load` does when one is not finite."""
        self.is_refused = True

    def keep(self) -> None:
        """Add the gradients of this step to those that wait for the next push."""
        if self.is_refused:
            self.is_refused = False
            self.refused += 1
            self.gradients.skip()
        else:
            self.gradients.keep(with_dense=self.deltas is None)

    def load(
        self,
        plan: PartPlan,
        *,
        with_step: bool,
        only_fresh: bool = False,
        as_copy: bool = False,
        is_decided: bool = False,
    ) -> bool:
        """Hold ready for a push what was kept, with the gradients of this step.

        Args:
            plan: of the part.
            with_step: the push is for a batch whose gradients were not kept yet.
            only_fresh: of those, only what a backward has touched since the last step.
            as_copy: the user's gradients may change before the push is acknowledged.
            is_decided: the push is to have its effect, whatever its norm.

        Returns:
            Whether all were finite, and the codec can take them; if not, or if the norm is
            beyond its bound, nothing is pushed: `refusal` says why.
        """
        if plan is not self._plan:
            self._follow(plan)
        is_refused = self.is_refused
        gathered = self.gather(with_step=with_step, only_fresh=only_fresh)
        if self.join is not None:
            choice = GatherChoice(with_step and not is_refused, only_fresh)
            gathered = self._joined(gathered, choice, self.join)
        dense, kept_rows, is_void = gathered
        by_index = {i: coalesced(dense.pop(i)) for i in self.sparse & dense.keys()}
        rows = tuple(merge(table, plan, recorded) for table, recorded in kept_rows.items())
        by_rows = [one.values for one in by_index.values()]
        found = [*self._unseen(dense), *by_rows]
        found += [row.gradient for row in rows if row.has_sums]
        is_finite = not is_void and self._fits(found)
        has_nothing = is_refused and not (dense or by_index or rows)
        self.refusal = None if is_finite and not has_nothing else _NOT_FINITE
        if self.norms is not None and self.refusal is None and not is_decided:
            by_rows += [row.gradient for row in rows]
            self.refusal = self.norms.look([*dense.values(), *by_rows])
        if self.refusal is not None:
            dense, by_index, rows, kept_rows = {}, {}, (), {}
            if self.early is not None:
                self.early.name(())
        self.refused += is_refused or not is_finite
        if as_copy:
            dense = {i: g if self._codes(i) else g.clone() for i, g in dense.items()}
            by_index = {i: gradient.copy() for i, gradient in by_index.items()}
        arrays = {index: byte_array(gradient) for index, gradient in dense.items()}
        coded = {} if self._coding is None else self._coding.code_blocks(arrays)
        # Copies: a push that has to be repeated must say the same, and by then others'
        # values may have come.
        indices = arrays if self._sends_values else ()
        then = {i: byte_array(on_cpu(self.parameters[i]).clone()) for i in indices}
        hyper = hyper_of(self.groups)
        stepped = counted(plan, hyper, kept_rows) if kept_rows else ()
        self._load = Load(hyper, arrays, by_index, rows, coded, then, stepped)
        return is_finite

    def _joined(self, own: Gradients, choice: GatherChoice, join: Join) -> Gradients:
        """With what other processes have, on the host."""
        dense, rows, is_void = join(own, choice)
        if is_void:
            return Gradients({}, {}, is_void)
        return Gradients(self._host.wait_host(dense) if self.joins_on_gpu else dense, rows)

    def _unseen(self, dense: dict[int, torch.Tensor]) -> list[torch.Tensor]:
        """Gradients that nobody has looked at: what has gone early is finite."""
        if self.early is None:
            return list(dense.values())
        named = self.early.name(dense.keys() - self.gradients.kept.keys())
        return [gradient for index, gradient in dense.items() if index not in named]

    def _codes(self, index: int) -> bool:
        return self._coding is not None and self._coding.codes(index)

    def forget_left_out(self) -> None:
        """What the codec left out of pushes belongs to an abandoned future."""
        if self._coding is not None:
            self._coding.forget()
        if self.deltas is not None:
            self.deltas.forget()

    def gather(self, *, with_step: bool, only_fresh: bool) -> Gradients:
        """What this process has for a push: what was kept, with this step's gradients.

        Rows' gradients wait here until `clear`; those of a refused step are left out.
        """
        if self.deltas is not None:
            self.is_refused = False
            return Gradients(self.deltas.take(), {})
        is_refused, self.is_refused = self.is_refused, False
        if with_step and is_refused:
            self.gradients.drop_rows()
        dense, rows, _ = self.gradients.gather(
            with_step=with_step and not is_refused, only_fresh=only_fresh
        )
        is_here = all(gradient.is_cpu for gradient in dense.values())
        if not (is_here or self.joins_on_gpu):
            dense = self._host.wait_host(dense)
        return Gradients(dense, rows)

    def clear(self, *, is_flying: bool = False) -> None:
        """The step is over, whatever became of it: nothing waits any more.

        ``is_flying``: the push is on its way, and may have to be repeated.
        """
        if not is_flying:
            self._load = NOTHING
        self.is_refused = False
        self.gradients.clear()
        if self.early is not None:
            self.early.clear(is_flying=is_flying)
