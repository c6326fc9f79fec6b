"""What a script does to parameters by itself, between the steps.

::

    settled   values have landed, or have been sent: this is how they are
    rest      the user's hands are next; now and then the values themselves are looked at
    changed   the user's hands were there: which parameters are others now

Torch counts what changes a tensor, and that is compared every time. What is done to
``p.data`` it does not count, so the bytes are compared too: in a loop's first three steps,
in every 64th, where a loop may end, and for a while in every step once that has found
something. One that lies elsewhere now counts as changed, unless its bytes are known.

Pure: no thread but that of the user's loop calls.
"""

from collections.abc import Iterable, Sequence
from typing import Final, final

import torch
import xxhash

from paceline.trainer.encoding import byte_array, plain

FIRST_STEPS: Final = 3
EVERY_STEPS: Final = 64


@final
class WatchedValues:
    """The dense parameters of one part.

    Attributes:
        names: of the parameters, as errors say them.
        instead: {parameter index: values}, laid over those of the servers for a while.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], names: Sequence[str]) -> None:
        """They are as they are."""
        self.names = tuple(names)
        self._parameters = tuple(parameters)
        self.instead: dict[int, torch.Tensor] = {}
        self._contents: list[int] | None = None
        self._steps = self._wary_until = 0
        self.settled()

    def settled(self) -> None:
        """The values are those of the servers, as far as this trainer has them."""
        self._versions, self._places = self._marks()
        self._contents = None
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
        self._steps = self._wary_until = 0

    def stepped(self) -> None:
        """A step is over."""
        self._steps += 1

    def rest(self, *, is_end: bool = False) -> None:
        """Nothing comes until `changed` is asked; ``is_end``: this may be a loop's end.

        What has changed and is nobody else's is no value to compare with.
        """
        if self._contents is not None or not (is_end or self._is_due()):
            return
        if self._marks() == (self._versions, self._places):
            self._contents = [contents_of(one) for one in self._parameters]

    def changed(self) -> list[int]:
        """The parameters that are not as they were settled, by their places."""
        marks = versions, places = self._marks()
        before = (self._versions, self._places)
        if self._contents is None:
            if marks == before:
                return []
            both = zip(versions, self._versions, places, self._places, strict=True)
            return [i for i, (v, w, p, q) in enumerate(both) if (v, p) != (w, q)]
        contents = [contents_of(one) for one in self._parameters]
        found = [i for i, one in enumerate(contents) if one != self._contents[i]]
        if any(versions[i] == self._versions[i] for i in found):  # behind torch's back
            self._wary_until = self._steps + EVERY_STEPS
        if not found:
            self._versions, self._places = marks
        return found

    def _marks(self) -> tuple[list[int], list[int]]:
        found = self._parameters
        return [one._version for one in found], [one.data_ptr() for one in found]

    def _is_due(self) -> bool:
        steps = self._steps
        return steps < max(FIRST_STEPS, self._wary_until) or steps % EVERY_STEPS == 0


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


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
