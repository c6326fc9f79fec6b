"""The numbers of one part at one trainer: what its uploads, pushes and pulls carry.

::

    p.grad --keep--> accumulated        a step that the pace keeps
    accumulated + p.grad --load-->      a step that is pushed: held until acknowledged
    push to server s  =  the blocks and rows of it that lie on s

Gradients of several batches are summed, as calling backward several times would.

Called by the thread of the user's loop; landings write from whichever thread receives.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, final

import msgspec
import torch
from torch import nn

from paceline.config import Pace
from paceline.messages.data import KeepFrozen, Pull, Pulled, Push, Upload
from paceline.messages.shared import Block, Message, PartPlan
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
    plain,
)
from paceline.trainer.model import Frozen, WatchedModel, WatchedValues
from paceline.trainer.rows import EmbeddingRows, TableRows
from paceline.trainer.rows.routing import RowGradient, merge
from paceline.trainer.tensors.backward_overlap import EarlySender
from paceline.trainer.tensors.gradients import (
    GatherChoice,
    Gradients,
    Join,
    Norms,
    Outline,
    SpentGradients,
    alone,
    drop_rows,
)
from paceline.trainer.tensors.local_steps import Deltas
from paceline.trainer.tensors.payload import NOTHING, Load, counted, hyper_of, push_with
from paceline.trainer.tensors.shared_memory_pulls import DirectPulls
from paceline.trainer.tensors.sparse_weights import RowPulls, coalesced, sparse_on_cpu
from paceline.trainer.verdicts import RefusedStep
from paceline.transport.frames import ByteArray, WritableBuffer

_NOT_FINITE = RefusedStep("its gradients are not finite, or beyond its codec")


@final
class PartTensors:
    """Parameters, tables and gradients of one part.

    Attributes:
        parameters: dense ones, in the order of the part.
        sparse: which of them have sparse gradients.
        tables: the part's tables.
        memory: of its parameters.
        groups, optimizer, pace: as `paceline.trainer.tensors.repacing` has them.
        refused: pushes whose gradients were not finite, so that nothing of them was sent.
        refusal: why what is loaded is to have no effect; None if it is to have one.
        norms: of pushes, where the pace bounds them.
        frozen: parameters of the model that nothing trains.
        is_scaled: a `GradScaler` steps; what no step has unscaled is no gradient yet.
        is_refused: no gradient of this step is to be used.
        join: brings in what other processes of the trainer have.
        joins_on_gpu: dense gradients go to the host when they are joined, not before.
        sends_early: gradients are sent while backward still runs.
        is_atomic: what tables write in a batch is there together or not at all.
        must_step: the model of which every batch has a step; empty: there is none.
        is_table: what is pushed is what the user writes to a table, not gradients.
        early: what of the next push was sent already.
        watched: what the script itself does to the parameters.
        models: those that were shared with it.
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
        """Begin without gradients.

        Args:
            parameters: dense ones, in the order of the part.
            groups: the optimizer's, read anew with every push.
            sparse: which of the parameters have sparse gradients.
            apart: pulled values may come while the user computes, and wait for `settle`.
            deltas: steps are taken here, and pushes say how far they have led.
            strategy: the user's own, if there is one.
            sends_early: gradients are sent while backward still runs.
        """
        self.deltas, self.strategy = deltas, strategy
        self.tables: list[EmbeddingRows | TableRows] = []
        self.must_step = ""
        self.is_table = self.is_atomic = False
        self.refused = 0
        self.refusal: RefusedStep | None = None
        self.norms: Norms | None = None
        self.frozen: Frozen | None = None
        self.is_scaled = False
        self.join: Join = alone
        self.joins_on_gpu = False
        self.sends_early, self.early = sends_early, EarlySender(parameters)
        self.is_refused = False
        self.parameters = tuple(parameters)
        self.watched = WatchedValues((), ())
        self.models: list[WatchedModel] = []
        self.groups = groups
        self.optimizer: torch.optim.Optimizer | None = None
        self.pace: Pace | None = None
        self.sparse = frozenset(sparse)
        self.memory = [ParameterMemory(parameter, apart=apart) for parameter in parameters]
        self._pulls = RowPulls(self.memory)
        self._coding, self._host = GradientCoding(), HostGradients()
        # What is read without asking is read when the push before it is acknowledged.
        self._direct = None if sparse else DirectPulls(self.memory, self._land)
        self._kept: dict[int, torch.Tensor] = {}  # {parameter index: sum of gradients}
        self._kept_rows: dict[str, list[RowGradient]] = {}  # {table name: waiting}
        self._load = NOTHING
        self._spent = SpentGradients(self.parameters)
        self._blocks: dict[int, Block] = {}  # {slot: block}
        self._plan: PartPlan | None = None
        self._has_landed = False

    # ------------------------------------------------------------ what messages carry

    def attach(self, role: str, message: Message, plan: PartPlan) -> Payload:
        """The message with this part's numbers."""
        if plan is not self._plan:
            self._plan = plan
            self._blocks = {block.slot: block for block in plan.blocks}
            self._pulls.follow(plan)
            self._coding.follow(plan)
            if self._direct is not None:
                self._direct.follow(plan)
        if isinstance(message, Upload | SetValues):
            return Payload(message, [self._values(slot) for slot in message.slots])
        if isinstance(message, KeepFrozen):
            assert self.frozen is not None
            return Payload(message, self.frozen.piece(message.first, message.stop))
        if isinstance(message, Pull):
            return self._pull(role, message)
        if isinstance(message, Push):
            return self._push(role, message, plan)
        return Payload(message)

    def settle(self, *, mixes: bool = False) -> None:
        """After a pull: what has landed is what the parameters are, or is mixed in."""
        if self._has_landed:
            self._has_landed = False
            own = self.deltas.own_values() if self.deltas is not None and mixes else []
            for memory in self.memory:
                memory.settle()
            if self.deltas is not None:
                self.deltas.anchor(own)
            self.watched.settled()

    def _values(self, slot: int) -> ByteArray:
        if slot in self._blocks:
            block = self._blocks[slot]
            return self.memory[block.parameter].read(block)
        [table], plan = self.tables, self._plan
        assert isinstance(table, TableRows), "rows of embeddings begin by themselves"
        assert plan is not None, "attach has seen it"
        return table.initial(slot, plan)

    def _land(self) -> None:
        self._has_landed = True

    def _pull(self, server: str, pull: Pull) -> Payload:
        direct = self._direct
        if direct is None or self._pulls.are_coded:
            return self._pull_by_asking(server, pull)
        question = direct.ask(server, pull)
        payload = self._pull_by_asking(server, question)
        answered = partial(direct.answered, server, question)
        if direct.knows(server):
            read = partial(direct.read, server, question)
            return payload._replace(reply_sizes=(), landed=answered, direct=read)
        return payload._replace(landed=answered)

    def _pull_by_asking(self, server: str, pull: Pull) -> Payload:
        def land(message: msgspec.Struct, sizes: Sequence[int]) -> Sequence[WritableBuffer]:
            assert isinstance(message, Pulled)
            self._land()
            return self._pulls.place(server, message, sizes)

        def landed(message: Message) -> Message:
            if isinstance(message, Pulled):
                self._pulls.landed(server, message)
            return message

        question, sizes = self._pulls.ask(server, pull)
        return Payload(question, (), land, sizes, landed=landed)

    def _push(self, server: str, push: Push, plan: PartPlan) -> Payload:
        self._coding.sent()
        early = self.early.take(server)
        return push_with(self._load, push, server, plan, self._coding, early)

    def is_finite(self) -> bool:
        """Whether all gradients of this step are finite, and the codec can take them."""
        rows = [gradient for table in self.tables for gradient in table.waiting()]
        found = [*self._gradients(only_fresh=False).values(), *rows]
        return all_finite(found) and self._coding.fits(found)

    def has_fresh(self) -> bool:
        """Whether a backward has left gradients here since the last step."""
        has_rows = any(table.waiting() for table in self.tables)
        return has_rows or bool(self._spent.there(only_fresh=True))

    def refuse(self) -> None:
        """Use no gradient of this step, as `load` does when one is not finite."""
        self.is_refused = True

    def keep(self) -> None:
        """Add the gradients of this step to those that wait for the next push."""
        if self.is_refused:
            self.is_refused = False
            self.refused += 1
            drop_rows(self.tables)
            self._spent.spend()
            return
        own = {} if self.deltas is not None else self._gradients(only_fresh=False)
        for index, gradient in own.items():
            kept = self._kept.get(index)
            if kept is None:
                self._kept[index] = gradient.clone()
            elif index in self.sparse:
                self._kept[index] = kept + gradient  # rows side by side, not summed yet
            else:
                self._kept[index] = kept.to(gradient.device).add_(gradient)
        self._keep_rows()
        self._spent.spend()

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
        self._coding.follow(plan)
        is_refused = self.is_refused
        gathered = self.gather(with_step=with_step, only_fresh=only_fresh)
        gathering = GatherChoice(with_step and not is_refused, only_fresh)
        dense, kept_rows, is_void = self.join(gathered, gathering)
        if is_void:
            dense, kept_rows = {}, {}
        if self.joins_on_gpu:
            dense = self._host.wait_host(dense)
        indices = self.sparse & dense.keys()
        sparse = {index: coalesced(dense.pop(index)) for index in indices}
        rows = tuple(merge(table, plan, recorded) for table, recorded in kept_rows.items())
        early = self.early.name(dense.keys() - self._kept.keys())
        by_rows = [found.values for found in sparse.values()]
        unseen = [gradient for index, gradient in dense.items() if index not in early]
        found = [*unseen, *by_rows, *(row.gradient for row in rows if row.has_sums)]
        is_finite = not is_void and all_finite(found) and self._coding.fits(found)
        has_nothing = is_refused and not (dense or sparse or rows)
        self.refusal = None if is_finite and not has_nothing else _NOT_FINITE
        if self.norms is not None and self.refusal is None and not is_decided:
            by_rows += [row.gradient for row in rows]
            self.refusal = self.norms.look([*dense.values(), *by_rows])
        if self.refusal is not None:
            dense, sparse, rows, kept_rows = {}, {}, (), {}
            self.early.name(())
        self.refused += is_refused or not is_finite
        if as_copy:
            dense = {i: g if self._coding.codes(i) else g.clone() for i, g in dense.items()}
            sparse = {index: gradient.copy() for index, gradient in sparse.items()}
        arrays = {index: byte_array(gradient) for index, gradient in dense.items()}
        coded = self._coding.code_blocks(arrays)
        then = self._values_then(arrays)
        hyper = hyper_of(self.groups)
        stepped = counted(plan, hyper, kept_rows)
        self._load = Load(hyper, arrays, sparse, rows, coded, then, stepped)
        return is_finite

    def _values_then(self, indices: Iterable[int]) -> dict[int, ByteArray]:
        """Copies of the values that gradients were computed on, where servers want them.

        Copies: a push that has to be repeated must say the same, and by then others' may
        have come.
        """
        if self.pace is None or compensation_of(self.pace) is None:
            return {}
        return {i: byte_array(on_cpu(self.parameters[i]).clone()) for i in indices}

    def forget_left_out(self) -> None:
        """What the codec left out of pushes belongs to an abandoned future."""
        self._coding.forget()
        if self.deltas is not None:
            self.deltas.forget()

    def outline(self, *, with_step: bool, only_fresh: bool) -> Outline:
        """What `gather` would find of a step that is not refused; nothing moves."""
        there = self._spent.there(only_fresh=only_fresh) if with_step else {}
        has_rows = with_step and any(table.waiting() for table in self.tables)
        return Outline({*self._kept, *there}, has_rows or bool(self._kept_rows))

    def gather(self, *, with_step: bool, only_fresh: bool) -> Gradients:
        """What this process has for a push: what was kept, with this step's gradients.

        Rows' gradients wait here until `clear`; those of a refused step are left out.
        """
        if self.deltas is not None:
            self.is_refused = False
            return Gradients(self.deltas.take(), {})
        dense = dict(self._kept)
        is_refused, self.is_refused = self.is_refused, False
        if with_step and is_refused:
            drop_rows(self.tables)
        elif with_step:
            for index, new in self._gradients(only_fresh=only_fresh).items():
                kept = dense.get(index)
                dense[index] = new if kept is None else kept.to(new.device) + new
            self._keep_rows()
        if not self.joins_on_gpu:
            dense = self._host.wait_host(dense)
        return Gradients(dense, dict(self._kept_rows))

    def clear(self, *, is_flying: bool = False) -> None:
        """The step is over, whatever became of it: nothing waits any more.

        Args:
            is_flying: the push is on its way, and may have to be repeated.
        """
        self._kept.clear()
        self._kept_rows.clear()
        if not is_flying:
            self._load = NOTHING
        self.is_refused = False
        drop_rows(self.tables)
        self._spent.spend()
        self.early.clear(is_flying=is_flying)

    def zero_grad(self) -> None:
        """Drop the parameters' own gradients: their batch is accounted for, or gone."""
        for parameter in self.parameters:
            parameter.grad = None

    def zero_unspent(self) -> None:
        """Drop gradients that no step has used: their batches are handed back."""
        for index in self._spent.there(only_fresh=True):
            self.parameters[index].grad = None

    def _gradients(self, *, only_fresh: bool) -> dict[int, torch.Tensor]:
        return {
            index: (sparse_on_cpu if index in self.sparse else plain)(gradient)
            for index, gradient in self._spent.there(only_fresh=only_fresh).items()
        }

    def _keep_rows(self) -> None:
        for table in self.tables:
            if recorded := table.take():
                self._kept_rows.setdefault(table.spec.name, []).extend(recorded)
