"""When a cut is begun, given up, and committed.

A cut is due after a time or a number of steps, when a trainer asks for one, before the
first lease, and at the end of a stage. One that fails is given up with its reason and its
files are removed; the next is tried after a pause that doubles, so that a full disk
neither ends the job nor is filled further, and cuts go on when there is space again.

Pure.
"""

from paceline.coordinator.averaging import may_end, wait_for_buffers
from paceline.coordinator.book import Book
from paceline.coordinator.cut_troubles import note_failure, note_success, note_wait
from paceline.coordinator.cuts import Counted, OpenCut, pause_after
from paceline.coordinator.effects import DropCut, Happened, WriteManifest
from paceline.coordinator.held_up import takers
from paceline.coordinator.outcomes import CutBegun, CutCommitted, JobBroken
from paceline.coordinator.status import count_records, count_steps
from paceline.coordinator.stops import has_nothing_to_train, is_touched, open_stage
from paceline.coordinator.tasks import is_epoch_over, is_last_epoch
from paceline.coordinator.tracking import may_cut, wait_for_state
from paceline.ids import COORDINATOR
from paceline.messages import Save, Saved, Wait, wait_for
from paceline.messages.waits import named
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
        return  # as after nearly every event
    if not book.servers_ready() or state.is_returning or book.now < book.retry_cut_s:
        return
    if not state.parts or not book.parts_ready():
        return
    may_begin = may_end if ends_stage else may_cut
    if may_begin(book):
        book.commit(CutBegun(state.next_cut))
        counted = Counted(count_records(book), count_steps(book))
        number = state.next_cut - 1
        book.open_cut = OpenCut(number, state, counted, book.now, ends_stage=ends_stage)
        for incarnation, parked in book.saves.items():
            assert isinstance(parked.message, Save)
            key = (incarnation, parked.message.number)
            book.save_cuts.setdefault(key, number)
        if book.is_saving and book.last_save is None:
            book.last_save = number


def fail_cut(book: Book, reason: str, server: str | None = None) -> None:
    """Give the open cut up: what it wrote goes, and another is tried after a pause."""
    cut = book.open_cut
    assert cut is not None
    book.open_cut = None
    book.failed_cuts += 1
    pause_s = pause_after(book.failed_cuts)
    book.retry_cut_s = book.now + pause_s
    note_failure(book, cut.cut, reason)
    book.forget_saves_in(cut.cut)
    fields: dict[str, object] = {"cut": cut.cut, "server": server, "reason": reason}
    book.effect(Happened("CutFailed", {**fields, "retry_s": pause_s}))
    book.effect(DropCut(cut.folder))


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
        fail_cut(book, error)
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
    state = book.durable
    if not book.saves or state.cut is None:
        return
    last = state.cut.cut
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
