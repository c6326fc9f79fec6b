"""What a model and its optimizer are, said in the words that all roles share.

Pure.
"""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from paceline.errors import UsageError
from paceline.messages import Hyper, HyperValue, OptimizerSpec, ParameterSpec
from paceline.params.blocks import dtype_bytes
from paceline.params.dense import NOT_SHARED, OPTIMIZERS

_ROW_OPTIMIZERS = ("SGD", "Adagrad")  # those that a row without a gradient does not feel


class Described(NamedTuple):
    """The dense side of a part: ``parameters[i]`` is what ``specs[i]`` describes."""

    parameters: tuple[nn.Parameter, ...]
    specs: tuple[ParameterSpec, ...]
    optimizer: OptimizerSpec | None


def describe(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Described:
    """Describe the trainable parameters of a model, and the optimizer that changes them.

    Tied parameters are one, with several names. Frozen ones (``requires_grad`` is False)
    are left out: they must be the same on every trainer from the beginning.

    Raises:
        UsageError: an optimizer that no server knows or that has stepped already; a
            parameter that only one of the two has; a dtype that cannot be shared.
    """
    names: dict[nn.Parameter, list[str]] = {}  # {trainable parameter: its names}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names.setdefault(parameter, []).append(name)
    if optimizer is None:
        if names:
            raise UsageError(
                f"share: {_first(names.values())!r} is trainable, but there is no "
                "optimizer: give one, or freeze it (requires_grad=False)"
            )
        return Described((), (), None)
    _check_optimizer(optimizer)
    group_of = _groups(optimizer, names)
    for parameter, own in names.items():
        if parameter not in group_of:
            raise UsageError(
                f"share: {own[0]!r} is trainable, but in no parameter group of the "
                "optimizer: add it, or freeze it (requires_grad=False)"
            )
    _check_sparse(model, optimizer, names, group_of)
    specs = tuple(
        ParameterSpec(tuple(own), tuple(p.shape), _dtype(own[0], p), group_of[p])
        for p, own in names.items()
    )
    groups = hyper_of(optimizer.param_groups)
    return Described(tuple(names), specs, OptimizerSpec(type(optimizer).__name__, groups))


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


def _check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    kind = type(optimizer)
    name = kind.__name__
    if OPTIMIZERS.get(name) is not kind:
        reason = NOT_SHARED.get(name, "it is not torch's own")
        raise UsageError(
            f"share: no server knows the optimizer {kind.__module__}.{kind.__qualname__}: "
            f"{reason}; "
            f"it may be one of torch.optim: {', '.join(OPTIMIZERS)}"
        )
    if _has_stepped(optimizer):
        raise UsageError(
            f"share: the {name} has stepped already, and its state does not "
            "travel: share it before its first step"
        )


def _has_stepped(optimizer: torch.optim.Optimizer) -> bool:
    """Adagrad has state from the start, at step 0; the others when they have stepped."""
    return any(float(state.get("step", 1)) > 0 for state in optimizer.state.values())


def _groups(
    optimizer: torch.optim.Optimizer, names: dict[nn.Parameter, list[str]]
) -> dict[nn.Parameter, int]:
    group_of: dict[nn.Parameter, int] = {}
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if parameter.requires_grad and parameter not in names:
                raise UsageError(
                    f"share: parameter group {index} of the optimizer has a parameter of "
                    f"shape {tuple(parameter.shape)} that is not in the model"
                )
            group_of[parameter] = index
    return group_of


def _check_sparse(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    names: dict[nn.Parameter, list[str]],
    group_of: dict[nn.Parameter, int],
) -> None:
    """Where a gradient has rows only, the optimizer must leave all others as they are."""
    kind = type(optimizer).__name__
    for module in model.modules():
        if not isinstance(module, nn.Embedding | nn.EmbeddingBag) or not module.sparse:
            continue
        weight = module.weight
        if not isinstance(weight, nn.Parameter) or weight not in names:
            continue
        name, group = names[weight][0], optimizer.param_groups[group_of[weight]]
        if kind not in _ROW_OPTIMIZERS:
            reason = f"{kind} moves rows without a gradient, too"
        elif group["weight_decay"]:
            reason = f"weight_decay of {kind} changes rows without a gradient, too"
        else:
            continue
        raise UsageError(
            f"share: {name!r} is of an {type(module).__name__}(sparse=True), whose "
            f"gradient has rows only, but {reason}, and torch refuses it as well: use SGD "
            "or Adagrad without weight_decay (an optimizer of its own: share the model in "
            "parts), sparse=False, or paceline.Embedding, whose optimizers are lazy"
        )


def _dtype(name: str, parameter: nn.Parameter) -> str:
    dtype = str(parameter.dtype).removeprefix("torch.")
    try:
        dtype_bytes(dtype)
    except UsageError as error:
        raise UsageError(f"share: parameter {name!r}: {error}") from None
    return dtype


def _is_plain(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1
    if isinstance(value, tuple | list):
        return all(isinstance(item, numbers.Real) or _is_scalar(item) for item in value)
    return value is None or isinstance(value, str | numbers.Real)


def _is_scalar(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _plain(value: Any) -> HyperValue:  # noqa: ANN401  (a parameter group's value)
    if isinstance(value, tuple | list):
        return tuple(float(item) for item in value)
    if isinstance(value, torch.Tensor) or not isinstance(value, bool | int | str | None):
        return float(value)
    return value


def _first(names: Iterable[list[str]]) -> str:
    return next(iter(names))[0]
