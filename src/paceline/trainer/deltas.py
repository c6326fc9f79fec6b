"""Local steps: the trainer's own optimizer moves its parameters, and a push says how far.

::

    pull ---> anchor
    step      the user's optimizer, on the parameters here
    step
    push      anchor - parameters, which the servers' outer optimizer takes for a gradient

Source: McMahan 2016 (FedAvg), Stich 2018 (local SGD), Douillard 2023 (DiLoCo).

The thread of the user's loop calls.
"""

import copy
from collections.abc import Sequence
from typing import final

import torch
from torch import nn

from paceline.trainer.memory import on_cpu


@final
class Deltas:
    """How far a part's parameters are from the values that were fetched last."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer
    ) -> None:
        """Begin at the parameters as they are.

        Args:
            parameters: dense ones, in the order of the part.
            optimizer: the user's own, which keeps its state here.
        """
        self._parameters = tuple(parameters)
        self._optimizer = optimizer
        self._fresh = copy.deepcopy(optimizer.state_dict()["state"])
        self._anchors = [on_cpu(one.detach()).clone() for one in self._parameters]

    def anchor(self) -> None:
        """Values have been fetched: this is where the next delta begins."""
        for anchor, parameter in zip(self._anchors, self._parameters, strict=True):
            anchor.copy_(parameter.detach())

    def step(self) -> None:
        """Take one step with the gradients that are here.

        Gradients of rows that are shown in a group, to be clipped, are for their own
        part's push: the optimizer would take them for parameters.
        """
        groups = self._optimizer.param_groups
        shown = [list(group["params"]) for group in groups]
        try:
            for group in groups:
                own = (one for one in group["params"] if isinstance(one, nn.Parameter))
                group["params"][:] = own
            self._optimizer.step()
        finally:
            for group, tensors in zip(groups, shown, strict=True):
                group["params"][:] = tensors

    def take(self) -> dict[int, torch.Tensor]:
        """``{parameter index: anchor - parameter}``, each of its parameter's shape."""
        return {
            index: anchor - on_cpu(parameter.detach())
            for index, (anchor, parameter) in enumerate(
                zip(self._anchors, self._parameters, strict=True)
            )
        }

    def forget(self) -> None:
        """The timeline is gone: the optimizer's state is as it was at first.

        Its hyper-parameters stay: schedulers are the user's affair.
        """
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict(
            {"state": copy.deepcopy(self._fresh), "param_groups": groups}
        )
