"""What speaks against a call of `Session.share`, and a part as it is to be.

Pure.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import nn

from paceline.config import Pace
from paceline.errors import UsageError
from paceline.messages.shared import PartSpec
from paceline.pace.guards import why_not_shared
from paceline.pace.policy import why_not_beside
from paceline.pace.strategy import Strategy, why_not_strategy
from paceline.params.guarding import why_not_guarded, why_not_hogwild
from paceline.trainer.engine import StepWarning
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


def why_not_part(
    part: PartSpec,
    strategy: Strategy | None,
    others: Sequence[Pace],
    *,
    processes: int,
    overlap: bool,
) -> str | None:
    """Why a part cannot be shared so, beside ``others``; None if it can.

    ``overlap``: gradients are to be sent while backward still runs.
    """
    reason = why_not_hogwild(part) or why_not_guarded(part)
    reason = reason or why_not_shared(part.pace, processes)
    reason = reason or why_not_beside([*others, part.pace])
    if part.auto is not None and processes > 1:
        reason = (
            f"{part.auto} changes the pace, and trainers of {processes} processes "
            f"keep theirs: use --ranks-per-trainer 1, or another pace"
        )
    if part.auto is not None and strategy is not None:
        reason = f"{part.auto} changes the pace under {strategy}: choose one of the two"
    if strategy is not None:
        reason = reason or why_not_strategy(strategy, overlap=overlap)
    return reason


def check_rows(
    name: str,
    here: tuple[Pace | None, Strategy | None, bool],
    chosen: Pace | None,
    strategy: Strategy | None,
    *,
    overlap: bool,
) -> None:
    """Refuse what is said of a table's rows that are shared already, and changes nothing.

    ``here``: pace, strategy and overlap that they have.

    Raises:
        UsageError: something is.
    """
    pace, own, sends_early = here
    word = "overlap=True" if overlap and not sends_early else None
    if strategy is not None and strategy is not own:
        word = f"pace={strategy}"
    elif chosen not in {None, pace}:
        word = f"pace={chosen}"
    if word is not None:
        raise UsageError(
            f"share: the rows of {name!r} are shared already, at {pace}, and {word} would "
            "change nothing: say it where they are shared first "
            f"(session.share(paceline.Embedding({name!r}, ...), pace=...))"
        )


def warn_of_rows(here: Mapping[str, Pace | Strategy | None], said: Pace | Strategy) -> None:
    """Warn of rows, {table: pace or strategy}, that are shared at another than said."""
    for name, pace in here.items():
        if pace != said:
            text = (
                f"share: the rows of {name!r} are shared already, and stay at {pace}; "
                f"pace={said} is that of what is new in the model: where it is meant for "
                f"all, say it where the rows are shared first"
            )
            warnings.warn(text, StepWarning, stacklevel=4)
