"""What `Session.share` is given, before anything is made of it.

Pure.
"""

from typing import Final

import torch
from torch import nn

from paceline.errors import UsageError
from paceline.trainer.model import why_not_kept
from paceline.trainer.share.optimizer import SharedOptimizer

_WRITE: Final = "write optimizer = session.share(model, optimizer)"


def check_arguments(model: object, optimizer: object) -> None:
    """Refuse what is no model, or no optimizer of one.

    Raises:
        UsageError: it says what to write.
    """
    if isinstance(model, torch.optim.Optimizer):
        which = "swapped" if isinstance(optimizer, nn.Module) else "not a model"
        raise UsageError(
            f"share: the first argument is an optimizer ({type(model).__name__}), "
            f"{which}: {_WRITE}"
        )
    if not isinstance(model, nn.Module):
        raise UsageError(f"share: expected a model (torch.nn.Module), {_got(model)}")
    if optimizer is None:
        return
    if isinstance(optimizer, SharedOptimizer):
        raise UsageError(
            "share: this optimizer is what share returned before: make one for each model, "
            "of torch.optim, and share each once"
        )
    if isinstance(optimizer, torch.optim.lr_scheduler.LRScheduler):
        raise UsageError(
            f"share: expected an optimizer, got a scheduler; {_WRITE}, and go on with the "
            "scheduler as before"
        )
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(
            f"share: expected an optimizer (torch.optim), got {_named(optimizer)}: "
            f"{_WRITE}; a pace is named: pace=..."
        )
    if (why := why_not_kept(optimizer)) is not None:
        raise UsageError(f"share: this {type(optimizer).__name__} cannot be shared: {why}")


def _got(model: object) -> str:
    if isinstance(model, type) and issubclass(model, nn.Module):
        return f"got the class {model.__name__}: make one, {model.__name__}(...)"
    if isinstance(model, dict):
        return f"got a dict: wrap its modules into one, nn.ModuleDict(...), and {_WRITE}"
    items = list(model) if isinstance(model, list | tuple | set) else []
    if items and all(isinstance(item, nn.Module) for item in items):
        return (
            f"got a {type(model).__name__} of modules: wrap them into one, "
            f"nn.ModuleList([...]), and {_WRITE}; or share each with an optimizer of its "
            "own"
        )
    if isinstance(model, torch.Tensor) or hasattr(model, "__iter__"):
        return f"got {_named(model)}: share takes the model, not its parameters: {_WRITE}"
    return f"got {_named(model)}: {_WRITE}"


def _named(thing: object) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    if isinstance(thing, str):
        return repr(thing)
    kind = type(thing).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
