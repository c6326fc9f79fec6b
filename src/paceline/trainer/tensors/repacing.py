"""Who steps on a part's parameters: servers, or the trainer itself; its pace says so.

The state of an optimizer that has stepped here is dropped with local steps, and one that is
to step here begins without.

The thread of the user's loop calls.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import nn

from paceline.messages.shared import PartSpec
from paceline.messages.trainer import Joined
from paceline.pace.policy import outer_step, steps_locally
from paceline.trainer.tensors.local_steps import Deltas


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
