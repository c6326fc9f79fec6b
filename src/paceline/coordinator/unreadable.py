"""A cut that cannot be read when all are to return to it: an older one takes its place.

::

    a server says that the cut is unreadable, and why
    -> `SeekCut`: the service looks for the newest older cut, reading every byte
    -> found: `CutSkipped`, all return to that one on a new timeline, queue and all
    -> none: the job cannot go on

Servers say so with every report, so a coordinator that restarts meanwhile asks again.
What scripts have done on the strength of a cut that is skipped is undone: trainers learn
the numbers of such cuts when they join, and begin again if they were past one.

Pure.
"""

import msgspec

from paceline.coordinator.book import Book
from paceline.coordinator.durable import CutRecord
from paceline.coordinator.effects import SeekCut
from paceline.coordinator.losses import leave_timeline
from paceline.coordinator.outcomes import CutSkipped, JobBroken
from paceline.coordinator.placement import keep_paces, place_again
from paceline.coordinator.runs import Stored
from paceline.messages import PartPlan


def look_at_unreadable(book: Book) -> None:
    """Have an older cut sought, once a server cannot read the one that all return to."""
    cut, why = book.durable.cut, why_unreadable(book)
    if cut is None or why is None or book.sought == cut.folder:
        return
    if book.durable.broken is None:
        book.sought = cut.folder
        book.effect(SeekCut(cut.cut, cut.timeline, cut.folder))


def why_unreadable(book: Book) -> str | None:
    """What servers say of the cut that all return to; None if it can be read so far."""
    state = book.durable
    if not state.is_returning:
        return None
    told = [
        f"{server}: {report.unreadable}"
        for server, report in sorted(book.reports.items())
        if report.timeline == state.timeline
        and report.unreadable is not None
        and state.servers.get(server) == report.incarnation
    ]
    return "; ".join(told) or None


def return_further(book: Book, folder: str, found: Stored, error: str | None) -> None:
    """The newest cut that is older than ``folder`` is known, or that there is none."""
    state = book.durable
    if book.sought != folder:
        return
    book.sought = None
    if state.cut is None or state.cut.folder != folder or state.broken is not None:
        return
    why = why_unreadable(book)
    if why is None:
        return  # whoever could not read it is gone; its successor may
    if found.cut is None:
        book.commit(JobBroken(_no_way_back(state.cut, why, error)))
        return
    reason = f"cut {state.cut.cut} cannot be read: {why}"
    if found.skipped:
        reason += f"; nor can older ones: {'; '.join(found.skipped)}"
    timeline = state.timeline + 1
    plans = _placed(book, found.plans)
    skipped = CutSkipped(state.cut.cut, reason, timeline, found.cut, plans)
    book.forget_saves_in(found.cut.cut + 1)
    leave_timeline(book, skipped, reason)


def _no_way_back(cut: CutRecord, why: str, error: str | None) -> str:
    return (
        f"all must return to cut {cut.cut}, which cannot be read ({why}), and there is "
        f"no older one to take its place ({error or 'none is kept'}); mend the files and "
        "resume the job, or start it anew"
    )


def _placed(book: Book, plans: tuple[PartPlan, ...]) -> tuple[PartPlan, ...]:
    """The parts of a cut, each slot where it lies in this run."""
    known = {part: record.plan for part, record in book.durable.parts.items()}
    servers, plans = sorted(book.durable.servers), keep_paces(plans, book.durable)
    return tuple(
        msgspec.structs.replace(plan, placement=here.placement)
        if (here := known.get(plan.spec.part)) is not None
        and here.placement.keys() == plan.placement.keys()
        else plan
        for plan in place_again(plans, servers)
    )
