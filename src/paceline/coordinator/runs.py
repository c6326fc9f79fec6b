"""A job outlives its launchers: where a run goes on when everybody was gone.

All that a run needs lies in the job's folder: the journal, and cuts that verify. The
newest whole cut decides; the journal adds what lies in no cut (who left, what was
claimed once). A lost journal costs only that. Cuts that the journal knows and that are
not where they lay are asked for: beginning anew in their stead needs the user's word.

Pure.
"""

from typing import NamedTuple

from paceline.coordinator.book import Book
from paceline.coordinator.effects import Happened
from paceline.coordinator.outcomes import CutCommitted, JobBroken, RunBegun
from paceline.coordinator.placement import keep_paces, place_again
from paceline.ids import server_id
from paceline.messages import PartPlan, Resumed

_LOST = (
    "the journal knows checkpoint {cut}, and {place} holds none of this job: bring them "
    "back (is a disk not mounted?) and resume, or say --begin-anew, which trains all from "
    "the start"
)
_MOST_TOLD = 8  # of what was passed over


class Stored(NamedTuple):
    """What the storage holds when a run begins.

    Args:
        cut: the newest cut that verifies; None if none was ever committed.
        plans: its parts.
        timeline: the newest that any cut was taken on, whole or not.
        skipped: of each newer cut, what is wrong with it.
        foreign: of each cut of another job, whose it is: neither loaded nor removed.
        records: acknowledged records of the job in the cut.
        created: when the cut was taken, in seconds since 1970.
    """

    cut: CutCommitted | None = None
    plans: tuple[PartPlan, ...] = ()
    timeline: int = 0
    skipped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    records: int = 0
    created: float = 0.0


def begin_run(book: Book, stored: Stored) -> Resumed | None:
    """Let this run be the job's; a coordinator restarted within it changes nothing.

    Returns:
        Where the run goes on, if it does.
    """
    state, config = book.durable, book.config
    if state.run == config.run:
        return None
    is_first = state.next_incarnation == 1 and stored.cut is None and not stored.timeline
    if is_first:
        book.commit(RunBegun(config.run, 0, None, ()))
        return None
    if stored.cut is None and state.cut is not None and not config.begins_anew:
        place = config.checkpoints or "its folder"
        book.commit(JobBroken(_LOST.format(cut=state.cut.cut, place=place)))
        return None
    servers = [server_id(number) for number in range(config.servers)]
    timeline = max(state.timeline, stored.timeline) + 1
    plans = place_again(keep_paces(stored.plans, state), servers)
    book.commit(RunBegun(config.run, timeline, stored.cut, plans))
    cut = stored.cut.cut if stored.cut is not None else None
    told = [*stored.skipped, *stored.foreign]
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD:] = [f"{len(told) - _MOST_TOLD} more"]
    fields: dict[str, object] = {"cut": cut or 0, "timeline": timeline}
    passed_over = {"skipped": stored.skipped, "foreign": stored.foreign}
    book.effect(Happened("Resumed", {**fields, **passed_over}))
    return Resumed(cut, stored.records, stored.created, tuple(told))
