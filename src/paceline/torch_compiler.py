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
from types import CodeType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")

COMPILER: Final = "torch._dynamo"
_DISABLED: Final = "__dynamo_disable"  # where torch keeps what a marked function becomes
_METHODS: Final = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


class _Torch(NamedTuple):
    """The names of its own that torch marks with."""

    mark: Callable[..., Any]
    marked: CodeType  # of what it makes of a function
    step: CodeType  # of what it makes of an optimizer's step
    hide: Callable[[CodeType], None]  # a compiler does not look into such a function


def leave_out() -> None:
    """Make, save and clear torch's optimizers without the compiler from now on."""
    for name in _METHODS:
        _wait_with(getattr(torch.optim.Optimizer, name))


def not_compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function as a declared break in whatever graph is compiled around it."""
    if _TORCH is None:
        return torch.compiler.disable(function)  # type: ignore[no-any-return, no-untyped-call]  # torch's door
    marked: Callable[P, T] = _TORCH.mark(function)
    _wait_with(marked)
    return marked


def step_of(kind: type[torch.optim.Optimizer]) -> Callable[[torch.optim.Optimizer], object]:
    """A step of optimizers of this class; none of their hooks is called."""
    step: Any = kind.step
    step = getattr(step, "__wrapped__", step)
    is_asking = _TORCH is not None and getattr(step, "__code__", None) is _TORCH.step
    if COMPILER in sys.modules or not is_asking:
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
    if _TORCH is None or COMPILER in sys.modules:
        return
    if getattr(marked, "__code__", None) is not _TORCH.marked:
        return
    function = marked.__wrapped__

    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401  (as the function's)
        if COMPILER not in sys.modules:
            return function(*args, **options)
        vars(function).pop(_DISABLED, None)
        return marked(*args, **options)

    _TORCH.hide(call.__code__)
    vars(function)[_DISABLED] = call


def _find_names() -> _Torch | None:
    """Torch's names; None where it has others, and is left to do as it does."""
    try:
        from torch._C._dynamo import eval_frame  # noqa: PLC0415  (what may not be there)
        from torch._compile import _disable_dynamo  # noqa: PLC0415
        from torch.optim.optimizer import (  # noqa: PLC0415
            _use_grad_for_differentiable,
        )

        actions = eval_frame._FrameAction
        hidden = eval_frame._FrameExecStrategy(actions.SKIP, actions.DEFAULT)
        return _Torch(
            _disable_dynamo,
            _disable_dynamo(leave_out).__code__,
            _use_grad_for_differentiable(leave_out).__code__,
            lambda code: eval_frame.set_code_exec_strategy(code, hidden),
        )
    except (ImportError, AttributeError, TypeError):
        return None


_TORCH: Final = _find_names()
