"""What the parameter groups of an optimizer say, as plain values that travel.

Pure.
"""

import numbers
from collections.abc import Sequence
from typing import Any, cast

import torch

from paceline.messages.shared import Hyper, HyperValue

# Values that travel as they are; asked for with every push.
_AS_THEY_ARE = frozenset({bool, int, float, str, type(None)})


def hyper_of(groups: Sequence[dict[str, Any]]) -> tuple[Hyper, ...]:
    """The plain values of parameter groups: numbers, booleans, words, tuples of numbers."""
    return tuple(
        {
            name: _plain(value)
            for name, value in group.items()
            if name != "params" and _is_plain(value)
        }
        for group in groups
    )


def _is_plain(value: object) -> bool:
    if type(value) in _AS_THEY_ARE:
        return True
    if isinstance(value, torch.Tensor):
        return value.numel() == 1
    if isinstance(value, tuple | list):
        return all(isinstance(item, numbers.Real) or _is_scalar(item) for item in value)
    return value is None or isinstance(value, str | numbers.Real)


def _is_scalar(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _plain(value: Any) -> HyperValue:  # noqa: ANN401  (a parameter group's value)
    if type(value) in _AS_THEY_ARE:
        return cast("HyperValue", value)
    if isinstance(value, tuple | list):
        return tuple(float(item) for item in value)
    if isinstance(value, torch.Tensor) or not isinstance(value, bool | int | str | None):
        return float(value)
    return value
