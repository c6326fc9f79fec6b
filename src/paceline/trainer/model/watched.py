"""What a script does by itself, between the steps, to what it has shared.

To the values of parameters::

    settled   values have landed, or have been sent: this is how they are
    rest      the user's hands are next; now and then the values themselves are looked at
    changed   the user's hands were there: which parameters are others now

Torch counts what changes a tensor, and that is compared every time. What is done to
``p.data`` it does not count, so the bytes are compared too: in a loop's first three steps,
in every 128th, where a loop may end, and for a while in every step once something was
found. In every other step a few values of one parameter are, of another one each time:
all of the part counts as changed where they are others. One that lies elsewhere now counts
as changed, unless its bytes are known.

To the model, of which must stay which parameters it has, and of which dtype::

    every step      frozen ones are frozen, dtypes are the same
    now and then    shared parameters are still the model's own

Pure: no thread but that of the user's loop calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, Protocol, final

import torch
import xxhash
from torch import nn
from torch.nn.parameter import UninitializedParameter

from paceline.errors import UsageError
from paceline.trainer.encoding import byte_array, plain
from paceline.transport.frames import ByteArray

FIRST_STEPS: Final = 3
EVERY_STEPS: Final = 128
FEW: Final = 16  # values of one parameter that are looked at in every step


_UNFROZEN = (
    "{name!r} was frozen when the model was shared, and {what} now: no server has it, so "
    "it would never be trained. Share it trainable and freeze it afterwards (a parameter "
    "without a gradient is not touched), or, between two loops, call "
    "session.unshare(model), unfreeze it, and share the model again"
)
_DTYPE = (
    "{name!r} was shared as {before} and is {now} now: servers keep the dtype that a "
    "parameter is shared with. Change it before session.share: model.{call}() first, then "
    "the optimizer, then share"
)
_REPLACED = (
    "{name!r} is no parameter of the model any more (it was assigned anew, or "
    "parametrized): the servers train the one that was shared. Change its values in place "
    "({name}.data.copy_(...), load_state_dict), or change the model before session.share"
)
_LAZY = (
    "share: {name!r} is of a lazy module and has no shape yet: run one forward first, "
    "then make the optimizer, then share"
)
_CALLS = {torch.float32: "float", torch.float64: "double", torch.float16: "half"}


@final
class WatchedValues:
    """The dense parameters of one part.

    Attributes:
        names: of the parameters, as errors say them.
        instead: {parameter index: values}, laid over those of the servers for a while.
        overlooked: changed behind torch's back after steps in which not all was looked at,
            so that more such changes may have been lost; its name.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._parameters = tuple(parameters)
        self.instead: dict[int, torch.Tensor] = {}
        self.overlooked: str | None = None
        self._contents: list[int] | None = None
        self._few: tuple[int, ByteArray, bytes] | None = None
        self._memory: dict[
            int, tuple[int, ByteArray | None]
        ] = {}  # making views takes long
        self._is_end = False
        self.begin()
        self.settled()

    def settled(self) -> None:
        """The values are those of the servers, as far as this trainer has them."""
        self._settled = self._marks()
        self._contents = self._few = None
        if self.instead:  # without it not even `no_grad` is entered: once a step
            with torch.no_grad():
                for index, value in self.instead.items():
                    self._parameters[index].copy_(value)

    def borrow(self, places: Iterable[int]) -> None:
        """What these parameters are now, they stay, whatever comes from the servers."""
        found = self._parameters
        self.instead = {index: found[index].detach().clone() for index in places}

    def begin(self) -> None:
        """A loop begins."""
        self._steps = self._num_partial = 0  # partial: not all was looked at
        self._wary_until = FIRST_STEPS
        self.overlooked = None

    def stepped(self) -> None:
        """A step is over."""
        self._steps += 1

    def rest(self, *, is_end: bool = False) -> None:
        """Nothing comes until `changed` is asked; ``is_end``: this may be a loop's end.

        What has changed and is nobody else's is no value to compare with.
        """
        if self._contents is not None:
            return
        self._is_end = is_end
        if not (is_end or self._is_due()):
            if self._few is None:
                self._num_partial += 1
                self._few = self._look_at_few()
        elif self._marks() == self._settled and not self._changed_by_few():
            self._contents = [contents_of(one) for one in self._parameters]

    def changed(self) -> list[int]:
        """The parameters that are not as they were settled, by their places."""
        marks, before = self._marks(), self._settled
        if self._contents is None:
            if marks == before:
                return self._changed_by_few()
            both = enumerate(zip(*marks, *before, strict=True))
            return [i for i, (v, p, w, q) in both if (v, p) != (w, q)]
        contents = [contents_of(one) for one in self._parameters]
        if contents == self._contents:
            self._settled = marks
            return []
        found = [i for i, one in enumerate(contents) if one != self._contents[i]]
        hidden = [i for i in found if marks[0][i] == before[0][i]]
        if hidden:
            self._beware(hidden[0], before=self._num_partial)
        return found

    def _marks(self) -> tuple[list[int], list[int]]:
        found = self._parameters
        return [*map(_VERSION, found)], [*map(_PLACE, found)]

    def _look_at_few(self) -> tuple[int, ByteArray, bytes] | None:
        """A parameter, some of its memory, and what lies there; None: it is elsewhere."""
        if not self._parameters:
            return None
        # Steps that come at regular intervals must not meet the same parameter each time.
        index = (self._steps * _SCATTER >> 16) % len(self._parameters)
        place, seen = self._memory.get(index, (None, None))
        settled = self._settled[1][index]
        if place != settled:
            seen = _few_of(self._parameters[index])
            self._memory[index] = settled, seen
        return None if seen is None else (index, seen, seen.tobytes())

    def _changed_by_few(self) -> list[int]:
        if self._few is None:
            return []
        index, seen, before = self._few
        if seen.tobytes() == before:
            return []
        self._beware(index, before=self._num_partial - 1)
        return list(range(len(self._parameters)))  # which others are nobody can tell

    def _beware(self, index: int, before: int) -> None:
        """It was changed behind torch's back; so it will be, and may have been before."""
        if before and not self._is_end:
            self.overlooked = self.names[index]
        self._num_partial = 0
        self._wary_until = self._steps + EVERY_STEPS

    def _is_due(self) -> bool:
        return self._steps < self._wary_until or self._steps % EVERY_STEPS == 0


class StepTaker(Protocol):
    """Who steps on a part."""

    @property
    def deltas(self) -> object | None:
        """Steps that are taken here: a change is part of what they push."""


class Looked(Protocol):
    """A part as it is looked at."""

    watched: WatchedValues

    @property
    def steps(self) -> StepTaker:
        """Whose they are."""


def changed_by_script(
    parts: Mapping[int, Looked], these: Iterable[int] | None = None
) -> dict[int, frozenset[int]]:
    """{part: its parameters that are not as they were settled}, of those with any.

    ``these``: no other part is looked at.
    """
    found = {}
    for part in parts if these is None else these:
        one = parts[part]
        if one.steps.deltas is None and (changed := one.watched.changed()):
            found[part] = frozenset(changed)
    return found


def let_rest(parts: Iterable[Looked], *, is_end: bool = False) -> None:
    """The user's hands are next; see `WatchedValues.rest`."""
    for one in parts:
        if one.steps.deltas is None:
            one.watched.rest(is_end=is_end)


def _few_of(tensor: torch.Tensor) -> ByteArray | None:
    """Some of its memory: numbers from all over it; None: it is not here, or not flat."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        return None
    values = byte_array(tensor).view(f"V{tensor.element_size()}")
    found: ByteArray = values[:: max(1, tensor.numel() // FEW)][:FEW]
    return found


def contents_of(tensor: torch.Tensor) -> int:
    """A number that differs wherever the bytes do, but for chance."""
    values = plain(tensor)
    if values.device.type == "cpu":
        return xxhash.xxh3_64_intdigest(byte_array(values).data)
    # Sums of whole numbers are the same in every order; the second one knows the places.
    bits = values.view(-1).view(_BITS[values.element_size()])
    places = torch.arange(1, len(bits) + 1, dtype=torch.int32, device=bits.device)
    sums = torch.stack(
        [bits.sum(dtype=torch.int64), (bits * places).sum(dtype=torch.int64)]
    )
    return hash(tuple(sums.tolist()))


_VERSION: Final = attrgetter("_version")  # by `map`: this is done several times a step
_DTYPE_OF: Final = attrgetter("dtype")
_PLACE: Final = torch.Tensor.data_ptr
_SCATTER: Final = 0x9E3779B1
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def check_initialized(model: nn.Module) -> None:
    """Refuse a model that does not know its shapes yet.

    Raises:
        UsageError: a parameter of it is of a lazy module.
    """
    for name, parameter in model.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise UsageError(_LAZY.format(name=name))


@final
class WatchedModel:
    """A model since it was shared."""

    def __init__(self, model: nn.Module, is_shared: Callable[[torch.Tensor], bool]) -> None:
        """It is as it is; ``is_shared``: whether some part has a parameter by now."""
        self._model, self._is_shared = model, is_shared
        found = list(model.named_parameters())
        self._frozen = [(n, p, p.grad) for n, p in found if not p.requires_grad]
        self._own = [(n, p, p.dtype) for n, p in found if p.requires_grad]
        self._parameters = [parameter for _, parameter, _ in self._own]
        self._dtypes = [dtype for _, _, dtype in self._own]
        self._steps = 0

    def check_loop(self) -> None:
        """A loop begins.

        Raises:
            UsageError: the model is not what was shared, and which parameter is not.
        """
        self._steps = 0
        self._check_own()
        self._check()

    def check_step(self) -> None:
        """A step begins.

        Raises:
            UsageError: as for `check_loop`.
        """
        if self._steps < FIRST_STEPS or self._steps % EVERY_STEPS == 0:
            self._check_own()
        self._steps += 1
        self._check()

    def _check(self) -> None:
        for name, parameter, before in self._frozen:
            has_gradient = parameter.grad is not None and parameter.grad is not before
            if (parameter.requires_grad or has_gradient) and not self._is_shared(parameter):
                what = "is trainable" if parameter.requires_grad else "has a gradient"
                raise UsageError(_UNFROZEN.format(name=name, what=what))
        if list(map(_DTYPE_OF, self._parameters)) == self._dtypes:
            return
        for name, parameter, dtype in self._own:
            if parameter.dtype is not dtype:
                call = _CALLS.get(parameter.dtype, str(parameter.dtype).split(".")[-1])
                text = _DTYPE.format(
                    name=name, before=dtype, now=parameter.dtype, call=call
                )
                raise UsageError(text)

    def _check_own(self) -> None:
        here = {id(parameter) for parameter in self._model.parameters()}
        for name, parameter, _ in self._own:
            if id(parameter) not in here:
                raise UsageError(_REPLACED.format(name=name))
