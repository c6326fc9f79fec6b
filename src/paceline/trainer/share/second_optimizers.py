"""Optimizers that a script makes beside the shared one, over the same parameters.

Servers step by what `share` was given, and hear nothing of another object: what that one
changes here is a change by the script, which most jobs leave out. It is told at its first
step in a loop, by a hook of torch's for all optimizers. A shared optimizer does not call
that one; any other's step takes half a microsecond more.

Waits for nothing. Any thread that steps calls.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Final, final
from weakref import WeakSet

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_pre_hook

from paceline.trainer.engine import StepWarning
from paceline.trainer.model import is_kept

_SEEN: Final = "_seen_beside_shared"  # of an optimizer: after how many models
_BESIDE: Final = (
    "step() of another {kind} over {name!r} than session.share was given: the servers do "
    "not hear of it, and step by what share returned. Make the optimizer before, and step "
    "that: optimizer = session.share(model, optimizer)"
)


@final
class SteppedParameters:
    """The parameters of a shared model, for as long as its shared optimizer holds this."""

    def __init__(
        self,
        own: torch.optim.Optimizer,
        names: Mapping[nn.Parameter, str],
        is_looping: Callable[[], bool],
    ) -> None:
        """Watch from now on.

        ``own``: the optimizer that was given; ``names``: {parameter: its name};
        ``is_looping``: whether a loop over batches is open.
        """
        self.own, self.names, self._is_looping = own, names, is_looping
        LOOKOUT.watch(self)

    def is_stepped(self) -> bool:
        """Whether it is the servers that move them just now."""
        return self._is_looping() and is_kept(self.own)


@final
class _Lookout:
    """The hook that all optimizers call."""

    num_hooks = 0  # that were registered: of `torch`'s, which are those of all

    def __init__(self) -> None:
        self._watched: WeakSet[SteppedParameters] = WeakSet()
        self._num_models = 0

    def watch(self, watched: SteppedParameters) -> None:
        """Look at all optimizers anew, each at its next step."""
        self._watched.add(watched)
        self._num_models += 1
        if not self.num_hooks:
            register_optimizer_step_pre_hook(self)
            self.num_hooks = 1

    def __call__(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Called before each step of an optimizer that is not shared."""
        if vars(optimizer).get(_SEEN) == self._num_models or is_compiling():
            return  # what is compiled once is not looked at
        stepped = [one for one in self._watched if one.is_stepped()]
        if not stepped:
            return
        vars(optimizer)[_SEEN] = self._num_models
        groups = optimizer.param_groups
        if any(groups is one.own.param_groups for one in stepped):  # either object of it
            return
        names = [
            one.names[parameter]
            for group in groups
            for parameter in group["params"]
            for one in stepped
            if parameter in one.names
        ]
        if names:
            told = _BESIDE.format(kind=type(optimizer).__name__, name=names[0])
            warnings.warn(told, StepWarning, stacklevel=3)


LOOKOUT: Final = _Lookout()
