"""When a cut is begun, given up, and committed.

A cut is due after a time or a number of steps, when a trainer asks for one, before the
first lease, and at the end of a stage. One that fails is given up with its reason and its
files are removed; the next is tried after a pause that doubles, so that a full disk
neither ends the job nor is filled further, and cuts go on when there is space again. Only
if storage refuses the first cut of all, which nothing was trained before, the job fails.

A job outlives its launchers: where a run goes on when everybody was gone.

All that a run needs lies in the job's folder: the journal, and cuts that verify. The
newest whole cut decides; the journal adds what lies in no cut (who left, what was
claimed once). A lost journal costs only that. Cuts that the journal knows and that are
not where they lay are asked for: beginning anew in their stead needs the user's word.

A cut that cannot be read when all are to return to it: an older one takes its place.

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

from typing import NamedTuple

import msgspec

from paceline.coordinator.decisions.leases import takers
from paceline.coordinator.decisions.membership import leave_timeline
from paceline.coordinator.decisions.status import count_steps
from paceline.coordinator.decisions.tracked import may_cut, may_end, wait_for_kept
from paceline.coordinator.durable import (
    CutRecord,
    Durable,
    has_nothing_to_train,
    is_touched,
    keep_paces,
    open_stage,
    place_again,
)
from paceline.coordinator.durable.outcomes import (
    CutBegun,
    CutCommitted,
    CutSkipped,
    JobBroken,
    RunBegun,
)
from paceline.coordinator.ledgers import (
    Asker,
    Book,
    Counted,
    Cuts,
    OpenCut,
    Page,
    Questions,
    Reports,
    TrainersSeen,
    is_epoch_over,
    is_last_epoch,
)
from paceline.coordinator.ledgers.effects import DropCut, Happened, SeekCut, WriteManifest
from paceline.ids import COORDINATOR, server_id
from paceline.messages.shared import PartPlan
from paceline.messages.trainer import Save, Saved
from paceline.messages.waits import Wait, named, wait_for
from paceline.messages.watching import Resumed, TakeCut


def look_at_cut(book: Book) -> None:
    """Begin a cut that is due, go on with the open one, or give it up."""
    book.cutting.note_wait(book.now, waits=waits_for_cut(book, book.cutting, book.seen))
    cut = book.cutting.open
    if cut is not None:
        if book.now >= cut.until_s:
            who = ", ".join(cut.missing()) or "the coordinator"
            fail_cut(
                book, book.cutting, f"{who} did not end writing in {cut.limit_s:.0f} s"
            )
        elif not cut.missing() and not book.cutting.is_writing:
            book.cutting.is_writing = True
            book.effect(WriteManifest(cut.manifest()))
        return
    state, ends_stage = book.durable, is_stage_over(book.durable, book.seen)
    if not ends_stage and not _wants_cut(book):
        return
    if not book.servers_ready() or state.is_returning or book.now < book.cutting.retry_s:
        return
    if not state.parts or not book.parts_ready():
        return
    if _may_begin(book, ends_stage=ends_stage):
        book.commit(CutBegun(state.next_cut))
        counted = Counted(book.count_records(), count_steps(book.durable, book.servers))
        number = state.next_cut - 1
        book.cutting.open = OpenCut(number, state, counted, book.now, ends_stage=ends_stage)
        for incarnation in book.questions.saves.asked:
            book.cutting.of_saves.setdefault(_save_key(book.questions, incarnation), number)
        book.cutting.begun_for_wishes(number)
        if book.cutting.is_saving and book.cutting.last_save is None:
            book.cutting.last_save = number


def _may_begin(book: Book, *, ends_stage: bool) -> bool:
    """Whether what trainers keep would be of the cut's moment; if not, it is asked for."""
    if ends_stage:
        return may_end(book, book.keeping, book.questions, book.seen)
    return may_cut(book, book.keeping, book.questions)


def fail_cut(
    page: Page,
    cutting: Cuts,
    reason: str,
    server: str | None = None,
    *,
    is_refused: bool = False,
) -> None:
    """Give the open cut up: what it wrote goes, and another is tried after a pause.

    With ``is_refused`` storage did not take it. Before there is any cut nothing is trained,
    and nobody has waited for anything: the job fails.
    """
    cut = cutting.open
    assert cut is not None
    pause_s = cutting.failed(cut.cut, reason, page.now)
    fields: dict[str, object] = {"cut": cut.cut, "server": server, "reason": reason}
    is_last = is_refused and page.durable.cut is None
    retry_s = None if is_last else pause_s
    page.effect(Happened("CutFailed", {**fields, "retry_s": retry_s}))
    page.effect(DropCut(cut.folder))
    if is_last and page.durable.broken is None:
        page.commit(JobBroken(f"the first checkpoint cannot be written: {reason}"))


def break_taken_over(page: Page, reason: str | None) -> None:
    """The place of the cuts is another run's: this one could not go back to anything."""
    if page.durable.broken is None:
        page.commit(JobBroken(reason or "another run has taken its checkpoints over"))


def commit_cut(book: Book, folder: str, error: str | None) -> None:
    """The manifest of the cut in this folder is written, or could not be."""
    cutting, opened = book.cutting, book.cutting.open
    cutting.is_writing = False
    if opened is None or opened.folder != folder:
        book.effect(DropCut(folder))  # given up meanwhile, its files are gone
        return
    if error is not None:
        fail_cut(book, cutting, error, is_refused=True)
        return
    cutting.taken(book.now)
    book.commit(opened.manifest().cut)
    if opened.ends_stage:
        book.progress.clear()
        book.keeping.forget_buffers()


def look_at_saves(page: Page, questions: Questions, cutting: Cuts) -> None:
    """Answer whoever waited for a cut that is committed now."""
    if page.durable.cut is None:
        return
    last = page.durable.cut.cut
    for incarnation, parked in questions.saves.to_look_at(last):
        if cutting.of_saves.get(_save_key(questions, incarnation), last + 1) <= last:
            questions.saves.take(incarnation)
            page.reply(parked.ticket, Saved(cut=last))


def cut_asked(book: Book, asker: Asker, message: TakeCut) -> None:
    """Begin a cut because an operator wants one; answered when it is committed."""
    reason = _why_no_cut(book)
    if reason is not None:
        book.refuse(asker.ticket, "invalid", reason)
        return
    book.cutting.wish(message.wish)
    book.park(book.questions.cuts, asker.ticket, asker, message)


def look_at_wishes(book: Book, questions: Questions, cutting: Cuts) -> None:
    """Answer operators whose cut is committed now, or can be no more."""
    last = -1 if book.durable.cut is None else book.durable.cut.cut
    never = _why_no_cut(book)
    for ticket, parked in questions.cuts.to_look_at((last, never)):
        assert isinstance(parked.message, TakeCut)
        cut = cutting.of_wishes.get(parked.message.wish)
        if cut is not None and cut <= last:
            questions.cuts.take(ticket)
            book.reply(parked.ticket, Saved(cut=cut))
        elif never is not None:
            questions.cuts.take(ticket)
            book.refuse(parked.ticket, "invalid", never)


def _why_no_cut(book: Book) -> str | None:
    if book.is_finishing or book.durable.broken is not None:
        return "the job is over"
    return None if book.durable.parts else "nothing is shared yet: nothing can be saved"


def waits_for_cut(page: Page, cutting: Cuts, seen: TrainersSeen) -> bool:
    """Whether work goes on only when a cut that failed has been taken after all."""
    if cutting.trouble is None:
        return False
    return not page.is_cut_whole() or is_stage_over(page.durable, seen)


def cut_wait(book: Book) -> Wait:
    """What somebody who waits for a cut waits for."""
    if book.cutting.open is None and book.cutting.trouble is not None:
        pause_s = max(0.0, book.cutting.retry_s - book.now)
        reason = f"{book.cutting.trouble}; the next is tried in {pause_s:.0f} s"
        return wait_for("cut", reason, [COORDINATOR])
    kept = wait_for_kept(book) if book.cutting.open is None else None
    if kept is not None:
        return kept
    servers = book.cutting.open.missing() if book.cutting.open is not None else []
    by = named(servers) if servers else "the coordinator"
    return wait_for("cut", f"a cut is being taken by {by}", takers(book.cutting))


def is_stage_over(state: Durable, seen: TrainersSeen) -> bool:
    """Whether the stage has nothing more to do, or nobody is left to do it."""
    if state.stage_spec() is None or state.queue.pending or state.settling:
        return False
    if state.is_returning or state.broken is not None:
        return False
    if is_epoch_over(state) and is_last_epoch(state):
        return True
    if has_nothing_to_train(state):
        return is_touched(state) or open_stage(state, state.queue.stage) > state.queue.stage
    if not state.has_started:
        return False
    stages = [seen.asked_stage.get(trainer, -1) for trainer in state.trainers]
    return bool(stages) and min(stages) > state.queue.stage


def _wants_cut(book: Book) -> bool:
    state, config = book.durable, book.config
    saves = book.questions.saves.asked
    if saves and any(
        _save_key(book.questions, inc) not in book.cutting.of_saves for inc in saves
    ):
        return True
    if book.cutting.is_wished():
        return True
    if book.cutting.is_saving and book.cutting.last_save is None:
        return True
    if not book.is_cut_whole():
        return bool(book.questions.leases.asked)  # the first lease waits for it
    assert state.cut is not None
    every_s, every_steps = config.cut_every_s, config.cut_every_steps
    is_due = (every_s > 0 and book.now - book.cutting.last_s >= every_s) or (
        every_steps > 0
        and count_steps(book.durable, book.servers) - state.cut.steps >= every_steps
    )
    return is_due and bool(state.queue.pending)


def _save_key(questions: Questions, incarnation: int) -> tuple[int, int]:
    message = questions.saves.asked[incarnation].message
    assert isinstance(message, Save)
    return incarnation, message.number


_LOST = (
    "the journal knows checkpoint {cut}, and {place} holds none of this job: bring them "
    "back (is a disk not mounted?) and resume, or say --begin-anew, which trains all from "
    "the start"
)
_MOST_TOLD = 8  # of what was passed over


class Stored(NamedTuple):
    """What the storage holds when a run begins.

    ``cut`` is the newest that verifies; ``foreign`` says of each cut of another job whose
    it is: neither loaded nor removed.
    """

    cut: CutCommitted | None = None
    plans: tuple[PartPlan, ...] = ()  # its parts
    timeline: int = 0  # the newest that any cut was taken on, whole or not
    skipped: tuple[str, ...] = ()  # of each newer cut, what is wrong with it
    foreign: tuple[str, ...] = ()
    records: int = 0  # acknowledged records of the job in the cut
    created: float = 0.0  # when the cut was taken, in seconds since 1970


def begin_run(page: Page, stored: Stored) -> Resumed | None:
    """Let this run be the job's; a coordinator restarted within it changes nothing.

    Returns:
        Where the run goes on, if it does.
    """
    state, config = page.durable, page.config
    if state.run == config.run:
        return None
    is_first = state.next_incarnation == 1 and stored.cut is None and not stored.timeline
    if is_first:
        page.commit(RunBegun(config.run, 0, None, ()))
        return None
    if stored.cut is None and state.cut is not None and not config.begins_anew:
        place = config.checkpoints or "its folder"
        page.commit(JobBroken(_LOST.format(cut=state.cut.cut, place=place)))
        return None
    servers = [server_id(number) for number in range(config.servers)]
    timeline = max(state.timeline, stored.timeline) + 1
    plans = place_again(keep_paces(stored.plans, state), servers)
    page.commit(RunBegun(config.run, timeline, stored.cut, plans))
    cut = stored.cut.cut if stored.cut is not None else None
    told = [*stored.skipped, *stored.foreign]
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD:] = [f"{len(told) - _MOST_TOLD} more"]
    fields: dict[str, object] = {"cut": cut or 0, "timeline": timeline}
    passed_over = {"skipped": stored.skipped, "foreign": stored.foreign}
    page.effect(Happened("Resumed", {**fields, **passed_over}))
    return Resumed(cut, stored.records, stored.created, tuple(told))


def look_at_unreadable(page: Page, cutting: Cuts, servers: Reports) -> None:
    """Have an older cut sought, once a server cannot read the one that all return to."""
    cut, why = page.durable.cut, why_unreadable(page.durable, servers)
    if cut is None or why is None or cutting.sought == cut.folder:
        return
    if page.durable.broken is None:
        cutting.sought = cut.folder
        page.effect(SeekCut(cut.cut, cut.timeline, cut.folder))


def why_unreadable(state: Durable, servers: Reports) -> str | None:
    """What servers say of the cut that all return to; None if it can be read so far."""
    if not state.is_returning:
        return None
    told = [
        f"{server}: {report.unreadable}"
        for server, report in sorted(servers.reports.items())
        if report.timeline == state.timeline
        and report.unreadable is not None
        and state.servers.get(server) == report.incarnation
    ]
    return "; ".join(told) or None


def return_further(book: Book, folder: str, found: Stored, error: str | None) -> None:
    """The newest cut that is older than ``folder`` is known, or that there is none."""
    state = book.durable
    if book.cutting.sought != folder:
        return
    book.cutting.sought = None
    if state.cut is None or state.cut.folder != folder or state.broken is not None:
        return
    why = why_unreadable(book.durable, book.servers)
    if why is None:
        return  # whoever could not read it is gone; its successor may
    if found.cut is None:
        book.commit(JobBroken(_no_way_back(state.cut, why, error)))
        return
    reason = f"cut {state.cut.cut} cannot be read: {why}"
    if found.skipped:
        reason += f"; nor can older ones: {'; '.join(found.skipped)}"
    timeline = state.timeline + 1
    plans = _placed(book.durable, found.plans)
    skipped = CutSkipped(state.cut.cut, reason, timeline, found.cut, plans)
    book.cutting.forget_saves_in(found.cut.cut + 1)
    leave_timeline(book, skipped, reason)


def _no_way_back(cut: CutRecord, why: str, error: str | None) -> str:
    return (
        f"all must return to cut {cut.cut}, which cannot be read ({why}), and there is "
        f"no older one to take its place ({error or 'none is kept'}); mend the files and "
        "resume the job, or start it anew"
    )


def _placed(state: Durable, plans: tuple[PartPlan, ...]) -> tuple[PartPlan, ...]:
    """The parts of a cut, each slot where it lies in this run."""
    known = {part: record.plan for part, record in state.parts.items()}
    servers, plans = sorted(state.servers), keep_paces(plans, state)
    return tuple(
        msgspec.structs.replace(plan, placement=here.placement)
        if (here := known.get(plan.spec.part)) is not None
        and here.placement.keys() == plan.placement.keys()
        else plan
        for plan in place_again(plans, servers)
    )
