"""What a script does to parameters by itself, between the steps.

::

    settled   values have landed, or have been sent: this is how they are
    rest      the user's hands are next; now and then the values themselves are looked at
    changed   the user's hands were there: which parameters are others now

Torch counts what changes a tensor, and that is compared every time. What is done to
``p.data`` it does not count, so the bytes are compared too: in a loop's first three steps,
in every 128th, where a loop may end, and for a while in every step once something was
found. In every other step a few values of one parameter are, of another one each time:
all of the part counts as changed where they are others. One that lies elsewhere now counts
as changed, unless its bytes are known.

Pure: no thread but that of the user's loop calls.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, final

import torch
import xxhash

from paceline.trainer.encoding import byte_array, plain
from paceline.transport.frames import ByteArray

FIRST_STEPS: Final = 3
EVERY_STEPS: Final = 128
FEW: Final = 16  # values of one parameter that are looked at in every step


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
        """They are as they are."""
        self.names = tuple(names)
        self._parameters = tuple(parameters)
        self.instead: dict[int, torch.Tensor] = {}
        self.overlooked: str | None = None
        self._contents: list[int] | None = None
        self._few: tuple[int, ByteArray, bytes] | None = None
        self._memory: dict[
            int, tuple[int, ByteArray | None]
        ] = {}  # making views takes long
        self._steps = self._wary_until = 0
        self._num_partial = 0  # steps in which not all was looked at
        self._is_end = False
        self.settled()

    def settled(self) -> None:
        """The values are those of the servers, as far as this trainer has them."""
        self._versions, self._places = self._marks()
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
        self._steps = self._wary_until = self._num_partial = 0
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
        elif self._marks() == (self._versions, self._places) and not self._changed_by_few():
            self._contents = [contents_of(one) for one in self._parameters]

    def changed(self) -> list[int]:
        """The parameters that are not as they were settled, by their places."""
        marks = versions, places = self._marks()
        before = (self._versions, self._places)
        if self._contents is None:
            if marks == before:
                return self._changed_by_few()
            both = zip(versions, self._versions, places, self._places, strict=True)
            return [i for i, (v, w, p, q) in enumerate(both) if (v, p) != (w, q)]
        contents = [contents_of(one) for one in self._parameters]
        found = [i for i, one in enumerate(contents) if one != self._contents[i]]
        hidden = [i for i in found if versions[i] == self._versions[i]]
        if hidden:
            self._beware(hidden[0], before=self._num_partial)
        if not found:
            self._versions, self._places = marks
        return found

    def _marks(self) -> tuple[list[int], list[int]]:
        found = self._parameters
        return list(map(_VERSION, found)), list(map(_PLACE, found))

    def _look_at_few(self) -> tuple[int, ByteArray, bytes] | None:
        """A parameter, some of its memory, and what lies there; None: it is elsewhere."""
        if not self._parameters:
            return None
        # Steps that come at regular intervals must not meet the same parameter each time.
        index = (self._steps * _SCATTER >> 16) % len(self._parameters)
        place, seen = self._memory.get(index, (None, None))
        if place != self._places[index]:
            seen = _few_of(self._parameters[index])
            self._memory[index] = self._places[index], seen
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
        steps = self._steps
        return steps < max(FIRST_STEPS, self._wary_until) or steps % EVERY_STEPS == 0


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
_PLACE: Final = torch.Tensor.data_ptr
_SCATTER: Final = 0x9E3779B1
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
