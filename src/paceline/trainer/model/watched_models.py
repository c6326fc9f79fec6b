"""What must stay of a shared model as it was shared: which parameters, of which dtype.

::

    every step      frozen ones are frozen, dtypes are the same
    now and then    shared parameters are still the model's own

Pure: no thread but that of the user's loop calls.
"""

from collections.abc import Callable
from typing import final

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from paceline.errors import UsageError
from paceline.trainer.model.watched_values import EVERY_STEPS, FIRST_STEPS

_UNFROZEN = (
    "{name!r} was frozen when the model was shared, and {what} now: no server has it, so "
    "it would never be trained. Share it trainable and freeze it afterwards (a parameter "
    "without a gradient is not touched), or, between two loops, call "
    "session.unshare(model), unfreeze it, and share the model again"
)
_DTYPE = (
    "{name!r} was shared as {before} and is {now} now: servers keep the dtype that a "
    "parameter is shared with. Change it before session.share: model.{call}() first, then "
    "the optimizer, then share"
)
_REPLACED = (
    "{name!r} is no parameter of the model any more (it was assigned anew, or "
    "parametrized): the servers train the one that was shared. Change its values in place "
    "({name}.data.copy_(...), load_state_dict), or change the model before session.share"
)
_LAZY = (
    "share: {name!r} is of a lazy module and has no shape yet: run one forward first, "
    "then make the optimizer, then share"
)
_CALLS = {torch.float32: "float", torch.float64: "double", torch.float16: "half"}


def check_initialized(model: nn.Module) -> None:
    """Refuse a model that does not know its shapes yet.

    Raises:
        UsageError: a parameter of it is of a lazy module.
    """
    for name, parameter in model.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise UsageError(_LAZY.format(name=name))


@final
class WatchedModel:
    """A model since it was shared."""

    def __init__(self, model: nn.Module, is_shared: Callable[[torch.Tensor], bool]) -> None:
        """It is as it is; ``is_shared``: whether some part has a parameter by now."""
        self._model, self._is_shared = model, is_shared
        found = list(model.named_parameters())
        self._frozen = [(n, p, p.grad) for n, p in found if not p.requires_grad]
        self._own = [(n, p, p.dtype) for n, p in found if p.requires_grad]
        self._steps = 0

    def check_loop(self) -> None:
        """A loop begins.

        Raises:
            UsageError: the model is not what was shared, and which parameter is not.
        """
        self._steps = 0
        self._check_own()
        self._check()

    def check_step(self) -> None:
        """A step begins.

        Raises:
            UsageError: as for `check_loop`.
        """
        if self._steps < FIRST_STEPS or self._steps % EVERY_STEPS == 0:
            self._check_own()
        self._steps += 1
        self._check()

    def _check(self) -> None:
        for name, parameter, before in self._frozen:
            has_gradient = parameter.grad is not None and parameter.grad is not before
            if (parameter.requires_grad or has_gradient) and not self._is_shared(parameter):
                what = "is trainable" if parameter.requires_grad else "has a gradient"
                raise UsageError(_UNFROZEN.format(name=name, what=what))
        for name, parameter, dtype in self._own:
            if parameter.dtype is not dtype:
                call = _CALLS.get(parameter.dtype, str(parameter.dtype).split(".")[-1])
                text = _DTYPE.format(
                    name=name, before=dtype, now=parameter.dtype, call=call
                )
                raise UsageError(text)

    def _check_own(self) -> None:
        here = {id(parameter) for parameter in self._model.parameters()}
        for name, parameter, _ in self._own:
            if id(parameter) not in here:
                raise UsageError(_REPLACED.format(name=name))
