"""Which paces a table of the user's own can have: it holds no gradients.

Pure.
"""

from typing import Final

from paceline.config import SSP, Async, Combine, Pace, Sync
from paceline.messages.shared import PartSpec

_TAKEN: Final = "async, async:push=n, ssp:s and sync:reduce=sum"


def why_not_for_table(pace: Pace) -> str | None:
    """Why a table cannot be of this pace; None if it can."""
    if not isinstance(pace, Async | SSP | Sync):
        return f"{pace} moves a model by an optimizer, and a table has none: use {_TAKEN}"
    if isinstance(pace, Sync) and pace.reduce != "sum":
        return (
            f"{pace} takes a mean of gradients, and what is pushed to a table is combined "
            f"by the table's own rule: use sync:reduce=sum"
        )
    if isinstance(pace, Sync) and pace.backup and pace.late == "drop":
        return (
            f"{pace} drops what comes late, and all that is pushed to a table counts: use "
            f"late=again, or no backup"
        )
    if isinstance(pace, Async) and pace.pull_every != 1:
        return (
            f"{pace} says when values are fetched, and those of a table are when they are "
            f"asked for: leave pull out"
        )
    if isinstance(pace, Async) and pace.isolation == "hogwild":
        return f"{pace} steps on rows that an optimizer moves, and a table has none"
    if pace.codec is not None:
        return f"{pace} codes gradients; values of a table travel as they are"
    if pace.guards is not None:
        return f"{pace} guards the steps of an optimizer, and a table has none"
    return None


def is_table(spec: PartSpec) -> bool:
    """Whether a part is a table of the user's own."""
    return any(isinstance(table.optimizer, Combine) for table in spec.tables)


def why_not_locked(pace: Pace) -> str | None:
    """Why a table of this pace has no locks and is not atomic; None if it may be."""
    if isinstance(pace, Sync):
        return f"with {pace} all trainers change rows at once, in rounds: use async"
    if isinstance(pace, Async) and pace.push_every != 1:
        return (
            f"with {pace} the push of a batch waits for those behind it, and nothing is "
            f"locked or atomic for so long: leave push out"
        )
    return None


def why_not_replicated(pace: Pace, rows: Combine, every: int) -> str | None:
    """Why trainers keep no copies of a table; None if they may."""
    if type(every) is not int or every < 1:
        return f"replicate_every: expected 1 batch or more, got {every!r}"
    if rows.rule == "replace":
        return "rows are replaced by who has the latest, and a copy is older: use pull"
    if rows.num_rows is None:
        return "a keyed table has no end that could be copied: give it rows, or pull"
    if not isinstance(pace, Async) or pace.push_every != 1:
        return (
            f"with {pace} rows are as old as the pace says, and a copy would be older: use "
            f"async, or leave replicate_every out"
        )
    return None
