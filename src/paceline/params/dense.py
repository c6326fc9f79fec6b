"""An optimize block: a slice of a dense parameter with the optimizer that changes it.

The optimizer is an instance of `torch.optim` on the block's own values, fused where torch
has a fused kernel for it, so that a step equals the plain loop's over the same block to
the bit (with the same number of intra-op threads, since torch's kernels cut by it).
Kinds are resolved from an allow-list of elementwise optimizers: they do to a slice what
they do to the whole. No code travels.

A block of whole rows, shape (rows, dim), takes sparse gradients (`paceline.params.sparse`)
by those optimizers of torch that do.

Pure: no lock of its own; one call at a time per block, blocks in parallel.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import torch

from paceline.errors import UsageError
from paceline.messages.shared import Hyper
from paceline.params.delayed import DelayedNesterov
from paceline.params.sparse import SPARSE_OPTIMIZERS, why_not_by_rows
from paceline.torch_compiler import step_of

OPTIMIZERS: Final[dict[str, Callable[..., torch.optim.Optimizer]]] = {
    "SGD": torch.optim.SGD,
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "Adagrad": torch.optim.Adagrad,
    "RMSprop": torch.optim.RMSprop,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "Adamax": torch.optim.Adamax,
    "Adadelta": torch.optim.Adadelta,
    "ASGD": torch.optim.ASGD,
    "Rprop": torch.optim.Rprop,
}

# Beside them, for deltas; no user's optimizer is one.
_OUTER: Final[dict[str, Callable[..., torch.optim.Optimizer]]] = {
    "DelayedNesterov": DelayedNesterov
}

# What torch has beside them, and why it does not step on a block of its own.
NOT_SHARED: Final = {
    "Adafactor": "it scales by whole rows and columns, and servers hold parts of them",
    "LBFGS": "it evaluates the model again within a step (step(closure))",
    "Muon": "it makes whole matrices orthogonal, and servers hold parts of them",
}

# What has a fused CPU kernel; the others step tensor by tensor.
_FUSED: Final = frozenset({"SGD", "Adam", "AdamW", "Adagrad"})

# How the trainer's optimizer runs on its own device; not what it computes.
_EXECUTION: Final = frozenset({"foreach", "fused", "capturable", "differentiable"})


@final
class OptimizeBlock:
    """One block's values and optimizer state.

    Attributes:
        optimizer: of torch, for these values alone.

    Args:
        values: shape (n,), or (rows, dim) to step with sparse gradients; contiguous;
            held, not copied: steps change it in place.
        kind: class name of the optimizer, one of `OPTIMIZERS`, or of `SPARSE_OPTIMIZERS`.
        hyper: values of the block's parameter group; missing ones are torch's defaults.

    Raises:
        UsageError: unknown kind, torch refuses a hyper-parameter, or the optimizer would
            change rows without a gradient.
    """

    def __init__(self, values: torch.Tensor, kind: str, hyper: Hyper) -> None:
        assert values.ndim in {1, 2}, f"a block is flat or rows, got {tuple(values.shape)}"
        assert values.is_contiguous(), "a block is contiguous"
        self._values = values
        self.optimizer = _optimizer(values, kind, hyper)
        self._step = step_of(type(self.optimizer))
        self._hyper: Hyper = {}
        self.set_hyper(hyper)

    @property
    def values(self) -> torch.Tensor:
        """The live values, shape (n,) or (rows, dim), until the next `apply`; read only."""
        return self._values

    def apply(self, gradient: torch.Tensor, hyper: Hyper) -> None:
        """Take one step of the optimizer.

        Args:
            gradient: shape and dtype of the values, sparse for rows; read, not kept.
            hyper: values of the group for this step and on. Keys that the optimizer
                does not know (a scheduler's ``initial_lr``) have no effect.
        """
        self.set_hyper(hyper)
        self._values.grad = gradient
        try:
            self._step(self.optimizer)
        finally:
            self._values.grad = None

    def state(self) -> dict[str, torch.Tensor]:
        """The optimizer's live state by torch's names, e.g. ``step``, ``exp_avg``.

        Empty before the first step of most optimizers. Copy what must outlive it.
        """
        found = {}
        for name, value in sorted(self.live_state().items()):
            if isinstance(value, torch.Tensor):
                found[name] = value
            elif isinstance(value, int):  # as SparseAdam counts its steps
                found[name] = torch.tensor(value)
        return found

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Replace the optimizer's state by a copy of what `state` returned.

        Raises:
            UsageError: a tensor is neither a scalar nor of the block's shape; nothing
                has been changed.
        """
        for name, value in state.items():
            if value.shape not in {(), self._values.shape}:
                raise UsageError(
                    f"optimizer state {name!r}: expected a scalar or shape "
                    f"{tuple(self._values.shape)}, got {tuple(value.shape)}"
                )
        own = {name: _own(value) for name, value in state.items()}
        self.optimizer.state[self._values] = own

    def live_state(self) -> dict[str, Any]:
        """The optimizer's state as torch holds it, not copied."""
        state: dict[str, Any] = self.optimizer.state[self._values]
        return state

    def set_hyper(self, hyper: Hyper) -> None:
        """Step with these values from now on; see `apply`."""
        if hyper == self._hyper:
            return
        group = self.optimizer.param_groups[0]
        for name, value in hyper.items():
            if name in group and name not in _EXECUTION:
                group[name] = value
        self._hyper = dict(hyper)


def _own(value: torch.Tensor) -> torch.Tensor | int:
    """A copy as torch holds it; a whole number is one that `state` has wrapped."""
    if value.dtype == torch.int64 and value.ndim == 0:
        return int(value)
    return value.clone()


def _optimizer(values: torch.Tensor, kind: str, hyper: Hyper) -> torch.optim.Optimizer:
    if values.ndim == 2:
        reason = why_not_by_rows(kind, hyper)
        if reason is not None:
            raise UsageError(f"{reason}: rows change by {', '.join(SPARSE_OPTIMIZERS)}")
        # Says explicitly what holds anyway; otherwise torch warns of its own optimizers.
        invariants: Any = torch.sparse.check_sparse_tensor_invariants  # torch's door
        if not invariants.is_enabled():
            invariants.disable()
    elif kind not in {**OPTIMIZERS, **_OUTER}:
        raise UsageError(
            f"a server knows the optimizers {', '.join(OPTIMIZERS)}, got {kind!r}: "
            f"share the model with one of them"
        )
    make = {**_OUTER, **OPTIMIZERS}.get(kind, torch.optim.SparseAdam)
    accepted = inspect.signature(make).parameters.keys() - _EXECUTION
    options = {name: value for name, value in hyper.items() if name in accepted}
    if kind in _FUSED and values.ndim == 1:  # no fused kernel takes sparse gradients
        options["fused"] = True
    try:
        return make([values], **options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"torch.optim.{kind} refuses {hyper}: {error}") from error


def weighted_sum(
    gradients: Sequence[torch.Tensor], weights: Sequence[float]
) -> torch.Tensor:
    """``sum of weight * gradient``, added in the order given: the same bits every time.

    Gradients are of one shape and dtype, and not changed.

    Returns:
        A new tensor; or the gradient itself when it is alone with weight 1, so that one
        contributor costs no copy and changes no bit. Do not write to it.
    """
    assert len(gradients) == len(weights) > 0, "one weight per gradient, at least one"
    if len(gradients) == 1 and weights[0] == 1.0:
        return gradients[0]
    first = 1
    if weights[0] == 1.0:  # the product would be the gradient itself: one pass less
        total = torch.add(gradients[0], gradients[1], alpha=weights[1])
        first = 2
    else:
        total = gradients[0] * weights[0]
    for gradient, weight in zip(gradients[first:], weights[first:], strict=True):
        total.add_(gradient, alpha=weight)
    return total
