"""A job outlives its launchers: where a run goes on when everybody was gone.

All that a run needs lies in the job's folder: the journal, and cuts that verify. The
newest whole cut decides; the journal adds what lies in no cut (who left, what was
claimed once). A lost journal costs only that.

Pure.
"""

from typing import NamedTuple

from paceline.coordinator.book import Book
from paceline.coordinator.effects import Happened
from paceline.coordinator.outcomes import CutCommitted, RunBegun
from paceline.coordinator.placement import keep_paces, place_again
from paceline.ids import server_id
from paceline.messages import PartPlan


class Stored(NamedTuple):
    """What the storage holds when a run begins.

    Args:
        cut: the newest cut that verifies; None if none was ever committed.
        plans: its parts.
        timeline: the newest that any cut was taken on, whole or not.
        skipped: of each newer cut, what is wrong with it.
        foreign: of each cut of another job, whose it is: neither loaded nor removed.
    """

    cut: CutCommitted | None = None
    plans: tuple[PartPlan, ...] = ()
    timeline: int = 0
    skipped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def begin_run(book: Book, stored: Stored) -> None:
    """Let this run be the job's; a coordinator restarted within it changes nothing."""
    state, config = book.durable, book.config
    if state.run == config.run:
        return
    is_first = state.next_incarnation == 1 and stored.cut is None and not stored.timeline
    if is_first:
        book.commit(RunBegun(config.run, 0, None, ()))
        return
    servers = [server_id(number) for number in range(config.servers)]
    timeline = max(state.timeline, stored.timeline) + 1
    plans = place_again(keep_paces(stored.plans, state), servers)
    book.commit(RunBegun(config.run, timeline, stored.cut, plans))
    cut = stored.cut.cut if stored.cut is not None else 0
    fields: dict[str, object] = {"cut": cut, "timeline": timeline}
    passed_over = {"skipped": stored.skipped, "foreign": stored.foreign}
    book.effect(Happened("Resumed", {**fields, **passed_over}))
