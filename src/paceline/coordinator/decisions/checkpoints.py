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

from paceline.coordinator.decisions.averages import may_end, wait_for_buffers
from paceline.coordinator.decisions.leases import takers
from paceline.coordinator.decisions.membership import leave_timeline
from paceline.coordinator.decisions.status import (
    count_steps,
    note_failure,
    note_success,
    note_wait,
)
from paceline.coordinator.decisions.tracked import may_cut, wait_for_state
from paceline.coordinator.durable import (
    CutRecord,
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
    Book,
    Counted,
    OpenCut,
    is_epoch_over,
    is_last_epoch,
    pause_after,
)
from paceline.coordinator.ledgers.effects import DropCut, Happened, SeekCut, WriteManifest
from paceline.ids import COORDINATOR, server_id
from paceline.messages.shared import PartPlan
from paceline.messages.trainer import Save, Saved
from paceline.messages.waits import Wait, named, wait_for
from paceline.messages.watching import Resumed
from paceline.pace.policy import outer_parts


def look_at_cut(book: Book) -> None:
    """Begin a cut that is due, go on with the open one, or give it up."""
    note_wait(book, waits=waits_for_cut(book))
    cut = book.open_cut
    if cut is not None:
        if book.now >= cut.until_s:
            who = ", ".join(cut.missing()) or "the coordinator"
            fail_cut(book, f"{who} did not end writing in {cut.limit_s:.0f} s")
        elif not cut.missing() and not book.is_writing_manifest:
            book.is_writing_manifest = True
            book.effect(WriteManifest(cut.manifest()))
        return
    state, ends_stage = book.durable, is_stage_over(book)
    if not ends_stage and not _wants_cut(book):
        return
    if not book.servers_ready() or state.is_returning or book.now < book.retry_cut_s:
        return
    if not state.parts or not book.parts_ready():
        return
    may_begin = may_end if ends_stage else may_cut
    if may_begin(book):
        book.commit(CutBegun(state.next_cut))
        counted = Counted(book.count_records(), count_steps(book))
        number = state.next_cut - 1
        book.open_cut = OpenCut(number, state, counted, book.now, ends_stage=ends_stage)
        for incarnation, parked in book.saves.items():
            assert isinstance(parked.message, Save)
            key = (incarnation, parked.message.number)
            book.save_cuts.setdefault(key, number)
        if book.is_saving and book.last_save is None:
            book.last_save = number


def fail_cut(
    book: Book, reason: str, server: str | None = None, *, is_refused: bool = False
) -> None:
    """Give the open cut up: what it wrote goes, and another is tried after a pause.

    Args:
        book: of the job.
        reason: why it is given up.
        server: whose share could not be written, if it was one.
        is_refused: storage did not take it. Before there is any cut nothing is trained, and
            nobody has waited for anything: the job fails.
    """
    cut = book.open_cut
    assert cut is not None
    book.open_cut = None
    book.failed_cuts += 1
    pause_s = pause_after(book.failed_cuts)
    book.retry_cut_s = book.now + pause_s
    note_failure(book, cut.cut, reason)
    book.forget_saves_in(cut.cut)
    fields: dict[str, object] = {"cut": cut.cut, "server": server, "reason": reason}
    is_last = is_refused and book.durable.cut is None
    retry_s = None if is_last else pause_s
    book.effect(Happened("CutFailed", {**fields, "retry_s": retry_s}))
    book.effect(DropCut(cut.folder))
    if is_last and book.durable.broken is None:
        book.commit(JobBroken(f"the first checkpoint cannot be written: {reason}"))


def break_taken_over(book: Book, reason: str | None) -> None:
    """The place of the cuts is another run's: this one could not go back to anything."""
    if book.durable.broken is None:
        book.commit(JobBroken(reason or "another run has taken its checkpoints over"))


def commit_cut(book: Book, cut: int, folder: str, error: str | None) -> None:
    """The manifest of a cut is written, or could not be."""
    book.is_writing_manifest = False
    opened = book.open_cut
    if opened is None or opened.folder != folder:
        book.effect(DropCut(folder))  # given up meanwhile, its files are gone
        return
    if error is not None:
        fail_cut(book, error, is_refused=True)
        return
    book.open_cut = None
    book.last_cut_s = book.now
    note_success(book)
    order = opened.manifest()
    book.commit(
        CutCommitted(
            cut,
            opened.timeline,
            opened.folder,
            order.queue,
            order.rounds,
            order.files,
            tuple(plan.spec.part for plan in order.plans),
            opened.ends_stage,
            order.steps,
            outer_parts(order.plans),
        )
    )
    if opened.ends_stage:
        book.progress.clear()
        book.forget_buffers()


def look_at_saves(book: Book) -> None:
    """Answer whoever waited for a cut that is committed now."""
    if book.durable.cut is None:
        return
    last = book.durable.cut.cut
    for incarnation, parked in book.saves.to_look_at(last):
        if book.save_cuts.get(_save_key(book, incarnation), last + 1) <= last:
            book.saves.take(incarnation)
            book.reply(parked.ticket, Saved(cut=last))


def waits_for_cut(book: Book) -> bool:
    """Whether work goes on only when a cut that failed has been taken after all."""
    if book.cut_trouble is None:
        return False
    return _is_first_missing(book) or is_stage_over(book)


def cut_wait(book: Book) -> Wait:
    """What somebody who waits for a cut waits for."""
    if book.open_cut is None and book.cut_trouble is not None:
        pause_s = max(0.0, book.retry_cut_s - book.now)
        reason = f"{book.cut_trouble}; the next is tried in {pause_s:.0f} s"
        return wait_for("cut", reason, [COORDINATOR])
    kept = None
    if book.open_cut is None:
        kept = wait_for_buffers(book) or wait_for_state(book)
    if kept is not None:
        return kept
    servers = book.open_cut.missing() if book.open_cut is not None else []
    by = named(servers) if servers else "the coordinator"
    return wait_for("cut", f"a cut is being taken by {by}", takers(book))


def is_stage_over(book: Book) -> bool:
    """Whether the stage has nothing more to do, or nobody is left to do it."""
    state = book.durable
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
    stages = [book.asked_stage.get(trainer, -1) for trainer in state.trainers]
    return bool(stages) and min(stages) > state.queue.stage


def _is_first_missing(book: Book) -> bool:
    return not book.is_cut_whole()


def _wants_cut(book: Book) -> bool:
    state, config = book.durable, book.config
    saves = book.saves
    if saves and any(_save_key(book, inc) not in book.save_cuts for inc in saves):
        return True
    if book.is_saving and book.last_save is None:
        return True
    if _is_first_missing(book):
        return bool(book.leases)  # the first lease waits for it
    assert state.cut is not None
    every_s, every_steps = config.cut_every_s, config.cut_every_steps
    is_due = (every_s > 0 and book.now - book.last_cut_s >= every_s) or (
        every_steps > 0 and count_steps(book) - state.cut.steps >= every_steps
    )
    return is_due and bool(state.queue.pending)


def _save_key(book: Book, incarnation: int) -> tuple[int, int]:
    message = book.saves[incarnation].message
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
