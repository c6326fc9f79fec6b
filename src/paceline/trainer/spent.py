"""Which gradients a step has used: what has not changed since is not used again.

Pure; called by the thread of the user's loop.
"""

import weakref
from collections.abc import Sequence
from typing import final

import torch
from torch import nn


@final
class SpentGradients:
    """Gradients of a part's parameters as the last step found them."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        """No step has used any."""
        self._parameters = parameters
        # {parameter index: (its gradient at the last step, that gradient's version)}
        self._spent: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}

    def holds(self, index: int, gradient: torch.Tensor) -> bool:
        """Whether a parameter's gradient is the one that the last step has used."""
        spent = self._spent.get(index)
        return (
            spent is not None and spent[0]() is gradient and spent[1] == gradient._version
        )

    def spend(self) -> None:
        """A step has used all that there are."""
        self._spent = {
            index: (weakref.ref(parameter.grad), parameter.grad._version)
            for index, parameter in enumerate(self._parameters)
            if parameter.grad is not None
        }
