"""Losing members: what a death means for the job.

Of a trainer and a server that do not reach each other one is lost, too.

A lost trainer's tasks wait until every server has fenced it; a lost server brings all
servers and the queue back to the last cut, on a new timeline.

Pure.
"""

from paceline.coordinator.decisions.tracked import must_return
from paceline.coordinator.durable import decide_resumes, join_marks, join_voids
from paceline.coordinator.durable.outcomes import (
    CutSkipped,
    LossKind,
    MarksRestored,
    MarksSettled,
    PaceChanged,
    Resume,
    ServerLost,
    TasksCrashed,
    TimelineLeft,
    TrainerLost,
)
from paceline.coordinator.ledgers import Book, Loss
from paceline.coordinator.ledgers.effects import Happened
from paceline.messages.watching import Exited

STALL_S = 1.0  # between two looks; they are a tenth of a second apart


def lose(book: Book, loss: Loss) -> None:
    """A member is dead to the job."""
    state = book.durable
    role = state.incarnations().get(loss.incarnation)
    if role is None or book.is_finishing:
        return
    if loss.kind == "unreached":
        book.servers.unreached[role] = loss.reason
    if role in state.trainers:
        _lose_trainer(book, role, loss)
    else:
        _lose_server(book, role, loss)


def exited(book: Book, report: Exited) -> None:
    """The launcher saw a process end; that it crashed counts whoever saw it first."""
    if book.servers.to_replace.get(report.role) == report.pid:
        book.servers.replaced(report.role)  # its successor may have the same number
    for incarnation in book.members.with_pid(report.pid):
        if book.durable.incarnations().get(incarnation) == report.role:
            how = f"signal {-report.code}" if report.code < 0 else f"code {report.code}"
            kind: LossKind = "crashed" if report.is_crash else "exited"
            lose(book, Loss(incarnation, kind, f"{report.role} ended with {how}"))
            book.seen.lost_tasks.pop((report.role, report.pid), None)
    keys = book.seen.lost_tasks.pop((report.role, report.pid), ())
    if keys and report.is_crash:
        book.commit(TasksCrashed(keys))


def look_for_losses(book: Book) -> None:
    """Members that closed, fell silent, or hold a lease without progress.

    Time in which the coordinator itself stood still (its disk, its machine) is nobody's
    silence.
    """
    stalled_s, book.members.looked_s = book.now - book.members.looked_s, book.now
    if stalled_s >= STALL_S:
        book.members.excuse(stalled_s)
        book.deadlines.excuse(stalled_s)
        book.unreached.excuse(stalled_s)
    if not book.members.are_quiet(book.now):  # else a thousand need not be looked at
        for loss in book.members.losses(book.durable.incarnations(), book.now):
            lose(book, loss)
    state = book.durable
    for loss in book.unreached.losses(state.trainers, state.servers, book.now):
        lose(book, loss)
    first_batch_s = book.deadlines.first_batch_s
    for incarnation in book.deadlines.expired(state, book.now):
        reason = "no batch of its lease was acknowledged in time"
        if book.deadlines.is_first(incarnation):
            reason = (
                f"its first batch was not acknowledged in {first_batch_s:g} s "
                "(--first-batch)"
            )
        lose(book, Loss(incarnation, "expired", reason))


def settle(book: Book) -> None:
    """Lease a lost trainer's tasks again, or go on after a return, when all reported."""
    state = book.durable
    for incarnation, keys in sorted(state.settling.items()):
        reports = book.servers.fences.get(incarnation, {})
        if set(reports) >= set(state.servers) and len(state.servers) == book.config.servers:
            told = reports.values()
            resumes = decide_resumes(keys, join_marks(keys, told), join_voids(told))
            book.commit(MarksSettled(incarnation, resumes))
            book.servers.fences.pop(incarnation, None)
    if (
        state.is_returning
        and book.servers_ready()
        and set(book.servers.marks) >= set(state.servers)
    ):
        book.commit(MarksRestored(state.timeline, _restored_resumes(book)))


def _restored_resumes(book: Book) -> tuple[Resume, ...]:
    reports = [report.marks for report in book.servers.marks.values() if report.has_slots]
    keys = {entry.key for report in reports for entry in report}
    open_keys = [key for key in keys if not book.durable.is_over(key)]
    return decide_resumes(open_keys, join_marks(open_keys, reports), join_voids(reports))


def _lose_trainer(book: Book, trainer: str, loss: Loss) -> None:
    spec, held = book.durable.stage_spec(), []
    for record in book.durable.queue.held_by(loss.incarnation).values():
        assert spec is not None
        book.progress.forget(spec, record.lease.key)
        held.append(record.lease.key)
    info = book.members.info(loss.incarnation)
    if info is not None and info.pid and held:
        book.seen.lost(trainer, info.pid, tuple(held))
    if info is not None and loss.kind == "unreached":
        book.servers.to_replace[trainer] = info.pid
    returns = must_return(book, book.keeping, book.questions, loss.incarnation)
    has_set = book.seen.setter == loss.incarnation
    lost = TrainerLost(trainer, loss.incarnation, loss.kind, loss.reason, has_set)
    book.commit(lost)
    book.forget_trainer(trainer, loss.incarnation)
    if returns:
        reason = f"{trainer} is lost, and with it what its tracked objects had come to"
        leave_timeline(book, TimelineLeft(book.durable.timeline + 1, reason), reason)


def _lose_server(book: Book, server: str, loss: Loss) -> None:
    info = book.members.info(loss.incarnation)
    if info is not None and loss.kind != "replaced":
        book.servers.to_replace[server] = info.pid
    timeline = book.durable.timeline + 1
    lost = ServerLost(server, loss.incarnation, loss.kind, loss.reason, timeline)
    leave_timeline(book, lost, f"{server} is lost")
    book.servers.reports.pop(server, None)
    book.members.forget(loss.incarnation)
    book.questions.servers.take(server)


def leave_timeline(
    book: Book, left: ServerLost | TimelineLeft | CutSkipped | PaceChanged, reason: str
) -> None:
    """All go back to the last cut, or an older one; whatever was open is dropped.

    With `PaceChanged` nobody goes back, and nothing was open.
    """
    for incarnation in book.durable.trainers.values():
        book.deadlines.pause(incarnation)
    book.commit(left)
    if isinstance(left, PaceChanged):
        _refuse_all(book, f"{reason}: all go on, on timeline {left.timeline}")
    else:
        _tell_return(book, left.timeline, reason)
    book.leave_timeline()


def _tell_return(book: Book, timeline: int, reason: str) -> None:
    cut = book.durable.cut.cut if book.durable.cut is not None else 0
    fields: dict[str, object] = {"cut": cut, "timeline": timeline, "reason": reason}
    book.effect(Happened("Returned", fields))
    _refuse_all(book, f"{reason}: all return to cut {cut} on timeline {timeline}")


def _refuse_all(book: Book, text: str) -> None:
    """The timeline is left: an answer would be of another than was asked on."""
    for asked in book.questions.of_trainers:
        for parked in asked.take_all():
            book.refuse(parked.ticket, "timeline", text)
