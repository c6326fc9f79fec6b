"""Parameter groups as they were when a model was shared, and what of them may change.

::

    lr, betas, weight_decay, ...    may: their values travel with every push
    momentum, amsgrad, centered     may, unless the state of it would not be there, or
                                    weights that change by rows would change as a whole
    the list, a group's params      may not: a part never changes

Pure.
"""

import numbers
from collections.abc import Mapping
from operator import is_
from typing import Any, Final, final

import torch
from torch import nn

from paceline.errors import UsageError
from paceline.params.sparse import why_not_by_rows

# How the trainer's own optimizer would run, not what it computes.
_EXECUTION: Final = frozenset({"foreach", "fused", "capturable", "differentiable"})
# What torch makes state for at the first step, and never later.
_FROM_THE_START: Final = {
    "Adam": ("amsgrad",),
    "AdamW": ("amsgrad",),
    "RMSprop": ("momentum", "centered"),
}


@final
class KeptGroups:
    """What the groups of one shared optimizer were at first."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        by_rows: Mapping[nn.Parameter, str],
    ) -> None:
        """Keep what they are now.

        Args:
            optimizer: the user's own.
            by_rows: {parameter: its name}, of those that change by rows.
        """
        self._own, self._kind = optimizer, type(optimizer).__name__
        self._groups = optimizer.param_groups
        self._params = [list(group["params"]) for group in self._groups]
        self._lists = [group["params"] for group in self._groups]
        self._hyper = [
            {name: group[name] for name in optimizer.defaults if name in group}
            for group in self._groups
        ]
        self._by_rows = [
            next((by_rows[one] for one in own if one in by_rows), None)
            for own in self._params
        ]

    def check(self, groups: list[dict[str, Any]]) -> None:
        """Refuse what no server would hear of.

        Args:
            groups: of the shared optimizer, by now.

        Raises:
            UsageError: groups, their parameters or their values changed so that a step
                would not be what the plain loop's is.
        """
        if groups is not self._groups or self._own.param_groups is not self._groups:
            raise UsageError(
                "step(): optimizer.param_groups is another list than when it was shared, "
                "and the servers hear of the first one only: change values within the "
                'groups (group["lr"] = ...)'
            )
        if len(groups) != len(self._params):
            raise UsageError(
                f"step(): expected {len(self._params)} parameter groups, as when the model "
                f"was shared, got {len(groups)}: {_REST}"
            )
        for index, group in enumerate(groups):
            self._check_params(index, group)
            self._check_hyper(index, group)

    def _check_params(self, index: int, group: dict[str, Any]) -> None:
        own, found = self._params[index], group["params"]
        count = len(own)
        if len(found) < count or not all(map(is_, own, found)):
            raise UsageError(
                f"step(): parameters of group {index} are not those that were shared: one "
                f"was taken out or replaced; to leave one as it is, let it have no "
                f"gradient (requires_grad=False, or grad = None)"
            )
        # Behind them gradients of rows are shown; those are no parameters.
        for added in found[count:]:
            if added.requires_grad:
                raise UsageError(
                    f"step(): group {index} has got another parameter, of shape "
                    f"{tuple(added.shape)}, since it was shared: {_REST}"
                )
        if found is not self._lists[index]:
            self._lists[index][:] = found  # where gradients of rows appear
            group["params"] = self._lists[index]

    def _check_hyper(self, index: int, group: dict[str, Any]) -> None:
        before = self._hyper[index]
        for name, value in before.items():
            if name not in group:
                raise UsageError(f"step(): {name!r} of parameter group {index} is gone")
            if group[name] is value or name in _EXECUTION:
                continue
            if _shape_of(value) != _shape_of(group[name]):
                raise UsageError(
                    f"step(): {name!r} of parameter group {index} was {value!r} when it "
                    f"was shared; expected {_shape_of(value)}, got {group[name]!r}"
                )
        for name in _FROM_THE_START.get(self._kind, ()):
            if group.get(name) and not before.get(name):
                raise UsageError(
                    f"step(): {name}={group[name]!r} of parameter group {index} was "
                    f"switched on after share, and {self._kind} keeps state for it from "
                    f"its first step on: set it before session.share"
                )
        row = self._by_rows[index]
        if row is not None and (why := why_not_by_rows(self._kind, group)) is not None:
            raise UsageError(
                f"step(): {row!r} was shared as a weight that changes by rows, and {why}: "
                f"set it before session.share, or leave it 0 in parameter group {index}"
            )


_REST: Final = "what is shared cannot grow; share the rest with an optimizer of its own"


def _shape_of(value: object) -> str:
    """Numbers may become others, also those in a tensor; nothing else is a number."""
    if isinstance(value, torch.Tensor):
        return "a number" if value.numel() == 1 else "a tensor"
    if isinstance(value, numbers.Real):
        return "a number"
    if isinstance(value, tuple | list):
        return f"{len(value)} numbers"
    return "no number"
