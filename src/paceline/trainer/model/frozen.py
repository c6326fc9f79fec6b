"""Parameters of a model that nothing trains: what they are, told by their content.

They stay with the trainer and must be the same on all. The first one's are written beside
the cuts, once; everybody's digests are compared, and looked at again when a loop ends.

Waits for nothing but a copy to the host. The thread of the user's loop calls.
"""

from collections.abc import Iterator
from typing import final

import torch
import xxhash
from torch import nn

from paceline.errors import UsageError
from paceline.messages.shared import Beside, FrozenSpec
from paceline.store.cuts import FROZEN_DTYPES
from paceline.trainer.model.model_buffers import Buffers
from paceline.transport.frames import ByteArray


@final
class Frozen:
    """The frozen parameters of a model, in its order; ``beside`` tells of them."""

    def __init__(self, model: nn.Module, state: str) -> None:
        """Read all of them; ``state`` is what the model's buffers are tracked as.

        Raises:
            UsageError: one is of a dtype that cannot be saved.
        """
        names: dict[nn.Parameter, list[str]] = {}  # {frozen parameter: its names}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            if not parameter.requires_grad:
                names.setdefault(parameter, []).append(name)
        self._parameters = tuple(names)
        whole, short, num_bytes = xxhash.xxh3_128(), xxhash.xxh3_64(), 0
        specs = []
        for parameter, data in zip(names, self._views(), strict=True):
            whole.update(data)
            short.update(data)
            num_bytes += len(data)
            dtype = str(parameter.dtype).removeprefix("torch.")
            if dtype not in FROZEN_DTYPES:
                raise UsageError(
                    f"share: {names[parameter][0]!r} is frozen and a {dtype}, which no "
                    f"checkpoint can hold; expected one of {', '.join(FROZEN_DTYPES)}"
                )
            own = tuple(names[parameter])
            digest = xxhash.xxh3_128_hexdigest(data)
            specs.append(FrozenSpec(own, tuple(parameter.shape), dtype, digest))
        self.beside = Beside(
            tuple(specs),
            whole.hexdigest() if specs else "",
            num_bytes,
            short.hexdigest() if specs else "",
            state,
            bool(Buffers(model)),
        )

    def read(self) -> Iterator[ByteArray]:
        """The bytes of one parameter after the other; valid until the script goes on."""
        for parameter in self._parameters:
            flat = parameter.detach().resolve_conj().cpu().contiguous().reshape(-1)
            yield flat.view(torch.uint8).numpy()

    def piece(self, first: int, stop: int) -> list[ByteArray]:
        """Bytes ``first..stop`` of all, one parameter after the other; as `read`."""
        found, at = [], 0
        for data in self.read():
            part = data[max(first - at, 0) : max(stop - at, 0)]
            at += len(data)
            if len(part):
                found.append(part)
        return found

    def changed(self) -> str | None:
        """The name of a parameter whose values are others by now, if there is one.

        One that is frozen no longer is shared again by now, or refused at the next step.
        """
        own = zip(self.beside.frozen, self._parameters, self._views(), strict=True)
        for spec, parameter, data in own:
            is_other = xxhash.xxh3_128_hexdigest(data) != spec.xxh3
            if is_other and not parameter.requires_grad:
                first: str = spec.names[0]
                return first
        return None

    def _views(self) -> Iterator[memoryview]:
        return (data.data for data in self.read())
