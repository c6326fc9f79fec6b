"""Local steps: the trainer's own optimizer moves its parameters, and a push says how far.

::

    pull ---> anchor
    step      the user's optimizer, on the parameters here
    step
    push      anchor - parameters, which the servers' outer optimizer takes for a gradient

Where a trainer goes on while its round is under way, the values that come are mixed into
its own, and the next delta begins at those that came.

Whether steps are taken here, the pace says. The state of an optimizer that has stepped
here is dropped with local steps, and one that is to step here begins without.

Source: McMahan 2016 (FedAvg), Stich 2018 (local SGD), Douillard 2023 (DiLoCo),
2025 (Streaming DiLoCo).

The thread of the user's loop calls.
"""

import copy
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import nn

from paceline.messages.shared import PartSpec
from paceline.messages.trainer import Joined
from paceline.pace.policy import outer_step, steps_locally
from paceline.trainer.encoding import on_cpu
from paceline.trainer.model import load_own_state, own_state, step_own


@final
class Deltas:
    """How far a part's parameters are from the values that were fetched last.

    ``optimizer``: the user's own, which keeps its state here; None for a fragment whose
    steps another one takes. ``mix``: the share of own values in those to go on with, for
    who has stepped since his push.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        optimizer: torch.optim.Optimizer | None,
        *,
        mix: float = 0.0,
    ) -> None:
        self._parameters = tuple(parameters)
        self._optimizer = optimizer
        self._mix = mix
        self._is_out = False  # a delta was taken, and nothing has been fetched since
        self._has_gone_on = False  # a step was taken meanwhile
        self._fresh = {}
        if optimizer is not None:
            self._fresh = copy.deepcopy(own_state(optimizer)["state"])
        self._anchors = [on_cpu(one.detach()).clone() for one in self._parameters]

    def own_values(self) -> list[torch.Tensor]:
        """What the parameters are, if some of that is to be kept when values have come."""
        is_kept = self._is_out and self._has_gone_on and self._mix > 0
        return [one.detach().clone() for one in self._parameters] if is_kept else []

    def anchor(self, own: Sequence[torch.Tensor] = ()) -> None:
        """Values have been fetched: here the next delta begins; ``own`` is mixed in."""
        self._is_out = False
        for anchor, parameter in zip(self._anchors, self._parameters, strict=True):
            anchor.copy_(parameter.detach())
        with torch.no_grad():
            for parameter, mine in zip(self._parameters, own, strict=False):
                parameter.lerp_(mine, self._mix)  # mix * mine + (1 - mix) * what has come

    def step(self) -> None:
        """Take one step with the gradients that are here, unless another takes it.

        Gradients of rows that are shown in a group, to be clipped, are for their own
        part's push: the optimizer would take them for parameters.
        """
        self._has_gone_on = True
        if self._optimizer is None:
            return
        groups = self._optimizer.param_groups
        shown = [list(group["params"]) for group in groups]
        try:
            for group in groups:
                own = (one for one in group["params"] if isinstance(one, nn.Parameter))
                group["params"][:] = own
            step_own(self._optimizer)
        finally:
            for group, tensors in zip(groups, shown, strict=True):
                group["params"][:] = tensors

    def take(self) -> dict[int, torch.Tensor]:
        """``{parameter index: anchor - parameter}``, each of its parameter's shape."""
        self._is_out, self._has_gone_on = True, False
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
        self._is_out = False
        if self._optimizer is None:
            return
        groups = own_state(self._optimizer)["param_groups"]
        state = {"state": copy.deepcopy(self._fresh), "param_groups": groups}
        load_own_state(self._optimizer, state)


def has_lost(before: Joined, joined: Joined) -> bool:
    """Whether a trainer that has joined again lacks what it had sent before."""
    is_same = joined.incarnation == before.incarnation
    return not is_same or joined.returned > before.timeline


@final
class PartSteps:
    """Whose steps a part's are, and what hyper-parameters go along with a push.

    Attributes:
        parameters: dense ones, in the order of the part.
        deltas: how far steps that are taken here have led; None: servers take them.
        groups: parameter groups whose plain values go along.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        groups: Sequence[dict[str, Any]],
        optimizer: torch.optim.Optimizer | None = None,
        deltas: Deltas | None = None,
    ) -> None:
        self.deltas, self.groups = deltas, groups
        self.parameters, self._optimizer = tuple(parameters), optimizer

    def follow(self, spec: PartSpec) -> None:
        """The part has another pace."""
        if self._optimizer is None:
            return
        if self.deltas is not None:
            self.deltas.forget()
        if not steps_locally(spec.pace):
            self.deltas, self.groups = None, self._optimizer.param_groups
            return
        assert spec.optimizer is not None
        self.groups = [outer_step(spec.pace)] * len(spec.optimizer.groups)
        if self.deltas is None:
            self.deltas = Deltas(self.parameters, self._optimizer)
