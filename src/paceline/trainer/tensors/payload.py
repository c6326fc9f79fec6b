"""What a push holds, until all servers have acknowledged it, and each one's share of it.

With it goes what the parameter groups of the optimizer say, as plain values that travel.

Waits for nothing. The thread of the user's loop calls.
"""

import numbers
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

import msgspec
import torch

from paceline.config import Combine, Pace
from paceline.errors import UsageError
from paceline.messages.data import Push
from paceline.messages.locking import RowSlots
from paceline.messages.shared import Block, Hyper, HyperValue, PartPlan
from paceline.pace.guards import compensation_of
from paceline.pace.policy import pushes_overlap
from paceline.params.blocks import dtype_bytes
from paceline.params.rows import counts_table_steps, twin_by_now
from paceline.params.sparse import SparseGradient
from paceline.trainer.client import Payload
from paceline.trainer.encoding import (
    GradientCoding,
    HostGradients,
    Packed,
    Stretch,
    all_finite,
    byte_array,
    on_cpu,
)
from paceline.trainer.rows.routing import RowGradient
from paceline.trainer.tensors.gradients import Norms, norms_of
from paceline.trainer.tensors.sparse_weights import cut_rows
from paceline.transport.frames import Buffer, ByteArray


class Load(msgspec.Struct):
    """What is being pushed; without gradients for a window that has none.

    `PartLoad.hold` fills in ``dense``, ``coded`` and ``then``, and copies ``sparse`` where
    gradients may change.
    """

    hyper: tuple[Hyper, ...] = ()
    dense: Mapping[int, Stretch] = {}  # {parameter index: gradient}
    sparse: Mapping[int, SparseGradient] = {}  # {parameter index: gradient}
    rows: tuple[RowGradient, ...] = ()
    coded: Mapping[int, ByteArray] = {}  # {slot: what travels instead of its gradient}
    then: Mapping[int, ByteArray] = {}  # {parameter index: the values before}
    stepped: tuple[str, ...] = ()  # tables that count their steps and have a gradient


NOTHING = Load()
# Gradients from which it pays that those side by side share a buffer; with a codec none do.
FEWEST: Final = 8
NO_TENSORS = Packed({}, [], {})

# Values that travel as they are; asked for with every push.
_AS_THEY_ARE = frozenset({bool, int, float, str, type(None)})


def hyper_of(groups: Sequence[dict[str, Any]]) -> tuple[Hyper, ...]:
    """The plain values of parameter groups: numbers, booleans, words, tuples of numbers."""
    found: list[Hyper] = []
    for group in groups:
        hyper: Hyper = {}
        for name, value in group.items():
            if type(value) in _AS_THEY_ARE:
                hyper[name] = value
            elif name != "params" and _is_plain(value):
                hyper[name] = _plain(value)
        found.append(hyper)
    return tuple(found)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(isinstance(item, numbers.Real) or _is_scalar(item) for item in value)
    return _is_scalar(value) or isinstance(value, str | numbers.Real)


def _is_scalar(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _plain(value: Any) -> HyperValue:  # noqa: ANN401  (a parameter group's value)
    if isinstance(value, tuple | list):
        return tuple(float(item) for item in value)
    if isinstance(value, torch.Tensor) or not isinstance(value, bool | int | str):
        return float(value)
    return value


def counted(
    plan: PartPlan, hyper: tuple[Hyper, ...], tables: Collection[str]
) -> tuple[str, ...]:
    """Which of these tables with gradients count their steps.

    Raises:
        UsageError: one follows the part's optimizer, and cannot with these numbers.
    """
    found = []
    for spec in plan.spec.tables:
        if spec.name not in tables or isinstance(spec.optimizer, Combine):
            continue
        if spec.follows and plan.spec.optimizer is not None:
            try:
                twin_by_now(plan.spec.optimizer.kind, hyper[0], spec.optimizer)
            except UsageError as error:
                raise UsageError(
                    f"step(): the embedding {spec.name!r} follows the optimizer of its "
                    f"model, and {error}"
                ) from error
        if counts_table_steps(spec.optimizer):
            found.append(spec.name)
    return tuple(found)


class Placed(NamedTuple):
    """A block of a server's: its bytes within its parameter, ``dim`` elements a row."""

    slot: int
    parameter: int
    start: int
    stop: int
    dim: int
    block: Block


Layout = Mapping[str, Sequence[Placed]]
"""{server: its blocks of a part, in the order of the plan}"""


def layout_of(plan: PartPlan) -> Layout:
    """What lies where; found once, since a push asks for it every time."""
    found: dict[str, list[Placed]] = {}
    for block in plan.blocks:
        spec = plan.spec.parameters[block.parameter]
        dim = spec.shape[1] if len(spec.shape) > 1 else 1
        size = dtype_bytes(spec.dtype)
        start, stop = block.start * size, block.stop * size
        placed = Placed(block.slot, block.parameter, start, stop, dim, block)
        found.setdefault(plan.placement[block.slot], []).append(placed)
    return found


@final
class PartLoad:
    """What a push of one part's gradients carries: made ready once, then as often as asked.

    Attributes:
        norms: of pushes, where the pace bounds them.
        host: where gradients of a GPU are sent from.
    """

    def __init__(self) -> None:
        self.host = HostGradients()
        self.norms: Norms | None = None
        self._pace: Pace | None = None
        self._sends_values = False  # those that gradients were computed on, with them
        self._goes_on = False  # the user does, before a push is acknowledged
        self._layout: Layout = {}
        self._coding: GradientCoding | None = None
        self._load = NOTHING

    def follow(self, plan: PartPlan) -> None:
        """The part lies so, and its gradients travel so."""
        self._layout, pace = layout_of(plan), plan.spec.pace
        if pace != self._pace:
            self._pace, self.norms = pace, norms_of(pace)
            self._sends_values = compensation_of(pace) is not None
            self._goes_on = pushes_overlap(pace)
        if pace.codec is None:
            self._coding = None
        else:
            self._coding = self._coding or GradientCoding()
            self._coding.follow(plan)

    def fits(self, gradients: Sequence[torch.Tensor]) -> bool:
        """Whether all are finite, and the codec can take them."""
        is_finite = all_finite(gradients)
        return is_finite and (self._coding is None or self._coding.fits(gradients))

    def hold(
        self,
        load: Load,
        dense: Packed = NO_TENSORS,
        parameters: Sequence[torch.Tensor] = (),
    ) -> None:
        """Hold what is to be pushed, with ``dense`` gradients of ``parameters``."""
        coding, stretches = self._coding, dense.stretches
        if self._goes_on:  # and gradients may change
            for i in dense.own:
                if not self._codes(i):
                    array, start, stop = stretches[i]
                    stretches[i] = array.copy(), start, stop
            load.sparse = {i: gradient.copy() for i, gradient in load.sparse.items()}
        if coding is not None:
            alone = {i: array[start:stop] for i, (array, start, stop) in stretches.items()}
            load.coded = coding.code_blocks(alone)
        if self._sends_values:
            # Copies: a push that has to be repeated must say the same, and by then others'
            # values may have come.
            load.then = {i: byte_array(on_cpu(parameters[i]).clone()) for i in stretches}
        load.dense = stretches
        self._load = load

    def _codes(self, index: int) -> bool:
        return self._coding is not None and self._coding.codes(index)

    def push(self, server: str, push: Push, early: Mapping[int, int] = {}) -> Payload:
        """The push as a server gets it, with its share of what is loaded.

        ``early``: what of it is there already, ``{slot: tag}``.
        """
        load, coding, here = self._load, self._coding, self._layout.get(server, ())
        if coding is not None:
            coding.sent()
        buffers: list[Buffer] = []
        is_apart = coding is not None or len(load.dense) < FEWEST
        slots, together = _add_dense(load, here, early, buffers, is_apart=is_apart)
        sparse = _add_sparse(load.sparse, here, coding, buffers) if load.sparse else []
        rows = _add_rows(load.rows, server, coding, buffers) if load.rows else []
        then = _add_values(load.then, here, buffers) if load.then else []
        # The next push of a round is computed from values of this one, applied.
        is_lent = push.round is not None
        message = msgspec.structs.replace(
            push,
            is_lent=is_lent,
            hyper=load.hyper,
            blocks=tuple(slots),
            together=tuple(together),
            sparse_blocks=tuple(sparse),
            rows=tuple(rows),
            early=dict(early),
            then=tuple(then),
            stepped=load.stepped,
        )
        return Payload(message, buffers, pen=push.part if is_lent else None)

    def forget(self) -> None:
        """What the codec left out of pushes belongs to an abandoned future."""
        if self._coding is not None:
            self._coding.forget()

    def clear(self) -> None:
        """Servers have acknowledged all of it, or nobody will ask again."""
        self._load = NOTHING


def _add_dense(
    load: Load,
    here: Sequence[Placed],
    early: Collection[int],
    buffers: list[Buffer],
    *,
    is_apart: bool,
) -> tuple[Sequence[int], Sequence[int]]:
    """Slots with a dense gradient, and how many share each buffer, if any do."""
    slots: list[int] = []
    together: list[int] = []
    memory: ByteArray | None = None
    begin = end = 0
    dense, coded = load.dense, load.coded
    for slot, parameter, start, stop, _, _ in here:
        stretch = dense.get(parameter)
        if stretch is None or slot in early:
            continue
        slots.append(slot)
        array, first, _ = stretch
        first, size = first + start, stop - start
        if slot in coded:
            array, first, size = coded[slot], 0, coded[slot].nbytes
        if is_apart or array is not memory or first != end:
            if memory is not None:
                buffers.append(memory[begin:end])
            memory, begin = array, first
            together.append(0)
        together[-1] += 1
        end = first + size
    if memory is not None:
        buffers.append(memory[begin:end])
    return slots, together if len(together) < len(slots) else ()


def _add_sparse(
    gradients: Mapping[int, SparseGradient],
    here: Sequence[Placed],
    coding: GradientCoding | None,
    buffers: list[Buffer],
) -> list[int]:
    sparse: list[int] = []
    for slot, parameter, _, _, dim, block in here:
        found = gradients.get(parameter)
        if found is not None:
            # Also without a row here: the step counts for all blocks of a parameter.
            share = cut_rows(found, block, dim)
            sparse.append(slot)
            buffers += [byte_array(share.rows), _coded(coding, share.values)]
    return sparse


def _add_rows(
    gradients: Sequence[RowGradient],
    server: str,
    coding: GradientCoding | None,
    buffers: list[Buffer],
) -> list[RowSlots]:
    rows: list[RowSlots] = []
    for loaded in gradients:
        for piece in loaded.route.pieces:
            if piece.server == server:
                slots = piece.slots
                if loaded.rule == "replace":
                    slots = msgspec.structs.replace(slots, replaces=True)
                rows.append(slots)
                here = loaded.gradient[piece.start : piece.stop]
                buffers.append(loaded.route.ids[piece.start : piece.stop])
                buffers.append(
                    here.detach().numpy() if coding is None else coding.code_rows(here)
                )
    return rows


def _add_values(
    values: Mapping[int, ByteArray], here: Sequence[Placed], buffers: list[Buffer]
) -> list[int]:
    found = [one for one in here if one.parameter in values]
    buffers += [values[one.parameter][one.start : one.stop] for one in found]
    return [one.slot for one in found]


def _coded(coding: GradientCoding | None, rows: torch.Tensor) -> ByteArray:
    return byte_array(rows) if coding is None else coding.code_rows(rows)
