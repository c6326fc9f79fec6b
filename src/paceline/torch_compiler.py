"""torch's compiler, `torch._dynamo`, is loaded by whoever compiles, and by nobody else.

To import it takes as long as to import torch. What torch marks as "not to be compiled" asks
for it at its first call, and methods of `torch.optim.Optimizer` are marked; its steps ask
for it, too: nearly every script loads it. Yet while it is not loaded nothing is compiled,
and a marked function is the function itself. `leave_out` tells that to what torch has
marked, `step_of` finds a step that does not ask, and `not_compiled` marks functions of ours
in the same way. Once the compiler is loaded, all do as torch says.

Where a torch marks its functions in another way, nothing changes.

Any thread may call.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import torch
from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)
from torch._compile import _disable_dynamo
from torch.optim.optimizer import _use_grad_for_differentiable

P = ParamSpec("P")
T = TypeVar("T")

COMPILER: Final = "torch._dynamo"
_DISABLED: Final = "__dynamo_disable"  # where torch keeps what a marked function becomes
_NOT_LOOKED_INTO: Final = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.DEFAULT)
_METHODS: Final = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def leave_out() -> None:
    """Make, save and clear torch's optimizers without the compiler from now on."""
    for name in _METHODS:
        _wait_with(getattr(torch.optim.Optimizer, name))


def not_compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function as a declared break in whatever graph is compiled around it."""
    marked: Callable[P, T] = _disable_dynamo(function)
    _wait_with(marked)
    return marked


def step_of(kind: type[torch.optim.Optimizer]) -> Callable[[torch.optim.Optimizer], object]:
    """A step of optimizers of this class; none of their hooks is called."""
    step: Any = kind.step
    step = getattr(step, "__wrapped__", step)
    if COMPILER in sys.modules or getattr(step, "__code__", None) is not _STEP:
        found: Callable[[torch.optim.Optimizer], object] = step
        return found
    return partial(_take_step, step.__wrapped__)


def _take_step(
    step: Callable[[torch.optim.Optimizer], object], optimizer: torch.optim.Optimizer
) -> None:
    with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
        step(optimizer)


def _wait_with(marked: Any) -> None:  # noqa: ANN401  (torch's own wrapper)
    """Let a marked function ask for the compiler only once somebody has loaded it."""
    if getattr(marked, "__code__", None) is not _MARKED:
        return
    function = marked.__wrapped__

    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401  (as the function's)
        if COMPILER not in sys.modules:
            return function(*args, **options)
        vars(function).pop(_DISABLED, None)
        return marked(*args, **options)

    set_code_exec_strategy(call.__code__, _NOT_LOOKED_INTO)
    vars(function)[_DISABLED] = call


_MARKED: Final = _disable_dynamo(_wait_with).__code__
_STEP: Final = _use_grad_for_differentiable(_wait_with).__code__
