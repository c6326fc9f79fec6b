"""Persistent buffers of a model, such as BatchNorm's running averages: as they are now.

A buffer is looked up by its name each time, since a script may assign another tensor
(``self.c = self.c + 1``), and ``model.to`` does. A state that is loaded goes into the
tensors that are there, and takes their place only where it does not fit.

Waits for nothing. The thread of the user's loop calls.
"""

from typing import final

import torch
from torch import Tensor, nn

from paceline.errors import UsageError


@final
class Buffers:
    """Persistent buffers of a model, by all of their names."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._at_share = frozenset(self.state_dict())

    @property
    def has_floats(self) -> bool:
        """Whether there is anything that an average makes sense of."""
        return any(b.is_floating_point() for b in self.state_dict().values())

    def __bool__(self) -> bool:
        """Whether there are any."""
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
