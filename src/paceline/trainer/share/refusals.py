"""What speaks against a part as a script wants to share it.

Pure.
"""

import warnings
from collections.abc import Mapping, Sequence

from paceline.config import Pace
from paceline.errors import UsageError
from paceline.messages.shared import PartSpec
from paceline.pace.guards import why_not_shared
from paceline.pace.policy import why_not_beside
from paceline.pace.strategy import Strategy, why_not_strategy
from paceline.params.guarding import why_not_guarded
from paceline.params.hogwild import why_not_hogwild
from paceline.trainer.engine import StepWarning


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
