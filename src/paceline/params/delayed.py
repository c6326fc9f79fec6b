"""Delayed Nesterov: SGD whose momentum is refreshed with every N-th gradient only.

::

    every gradient g     buffer += g                theta -= lr * g / N
    every N-th           m = beta * m + buffer / N  theta -= lr * beta * m,  buffer = 0

So N gradients move the values as far as one step on their mean would, and momentum, which
does not know how old a gradient is, sees their mean alone. With N = 1 it is
`torch.optim.SGD(nesterov=True)`.

Source: Liu 2024 (2401.09135), algorithm 3, with its momentum activation c = 0.

Pure.
"""

from collections.abc import Callable, Iterable
from typing import Any, final, overload

import torch


@final
class DelayedNesterov(torch.optim.Optimizer):
    """The outer optimizer of deltas that come one by one.

    State of each parameter: ``momentum`` and ``buffer`` of its shape, and ``step``, the
    gradients so far, a float32 scalar. ``momentum`` is beta above, ``delay`` N.
    """

    def __init__(
        self, params: Iterable[torch.Tensor], lr: float, momentum: float, delay: int
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "delay": delay})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one gradient; nothing is evaluated again."""
        assert closure is None, "a delta is taken as it is"
        for group in self.param_groups:
            for values in group["params"]:
                if values.grad is not None:
                    _step(values, values.grad, group, self.state[values])
        return None


def _step(
    values: torch.Tensor,
    gradient: torch.Tensor,
    group: dict[str, Any],
    state: dict[str, torch.Tensor],
) -> None:
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32)
        state["momentum"] = torch.zeros_like(values)
        state["buffer"] = torch.zeros_like(values)
    lr, beta, delay = group["lr"], group["momentum"], group["delay"]
    state["step"] += 1
    state["buffer"] += gradient
    values.add_(gradient, alpha=-lr / delay)
    if int(state["step"]) % delay:
        return
    state["momentum"].mul_(beta).add_(state["buffer"], alpha=1 / delay)
    state["buffer"].zero_()
    values.add_(state["momentum"], alpha=-lr * beta)
