"""What a model has beside the parameters that are trained: frozen ones, and buffers.

Waits for nothing but a copy to the host. The thread of the user's loop calls.
"""

from collections.abc import Iterator
from typing import final

import torch
import xxhash
from torch import Tensor, nn

from paceline.errors import UsageError
from paceline.messages.shared import Beside, FrozenSpec
from paceline.store.cuts import FROZEN_DTYPES
from paceline.transport.frames import ByteArray


@final
class Frozen:
    """Parameters that nothing trains, in the model's order; ``beside`` tells of them.

    They stay with the trainer and must be the same on all. The first one's are written
    beside the cuts, once; everybody's digests are compared, and looked at again when a loop
    ends.
    """

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


@final
class Buffers:
    """Persistent buffers, such as BatchNorm's running averages: as they are now.

    A buffer is looked up by its name each time, since a script may assign another tensor
    (``self.c = self.c + 1``), and ``model.to`` does.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._at_share = frozenset(self.state_dict())

    @property
    def has_floats(self) -> bool:
        """Whether there is anything that an average makes sense of."""
        return any(b.is_floating_point() for b in self.state_dict().values())

    def __bool__(self) -> bool:
        return bool(self.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """{name: value}, as of now; tied ones under all names."""
        saved = self._model.state_dict(keep_vars=True)
        found = self._model.named_buffers(remove_duplicate=False)
        return {name: buffer for name, buffer in found if name in saved}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy values into the buffers, in place where they fit, else assign them.

        A buffer that the state has and the model has not yet is registered; one that was
        registered after `share` and that the state does not know goes.

        Raises:
            UsageError: there is no place for a buffer in the model.
        """
        assigned: dict[Tensor, Tensor] = {}  # {what was there: what is}: ties stay
        for name, value in state.items():
            module, leaf = self._place(name)
            current = module._buffers.get(leaf)
            if current is not None and _fits(current, value):
                with torch.no_grad():
                    current.copy_(value)
            elif current is not None:
                new = assigned.setdefault(current, value.to(current.device, copy=True))
                setattr(module, leaf, new)
            elif leaf in module._buffers:
                setattr(module, leaf, value.to(self._device(), copy=True))
            else:
                module.register_buffer(leaf, value.to(self._device(), copy=True))
        for name in self.state_dict().keys() - state.keys() - self._at_share:
            module, leaf = self._place(name)
            delattr(module, leaf)

    def _place(self, name: str) -> tuple[nn.Module, str]:
        path, _, leaf = name.rpartition(".")
        try:
            module = self._model.get_submodule(path)
        except AttributeError as error:
            raise UsageError(
                f"the checkpoint holds the buffer {name!r}, and the model has no module "
                f"{path!r} to put it into: make the model as the job did"
            ) from error
        if leaf not in module._buffers and hasattr(module, leaf):
            raise UsageError(
                f"the checkpoint holds the buffer {name!r}, and in this model that is a "
                f"{type(getattr(module, leaf)).__name__}: make the model as the job did"
            )
        return module, leaf

    def _device(self) -> torch.device:
        held = (*self._model.parameters(), *self._model.buffers())
        return next((one.device for one in held), torch.device("cpu"))


def _fits(current: Tensor, value: Tensor) -> bool:
    """Whether a copy keeps what the value says: its shape, and its kind of numbers."""
    both_floats = current.is_floating_point() and value.is_floating_point()
    is_same = current.dtype == value.dtype or both_floats
    return current.shape == value.shape and is_same
