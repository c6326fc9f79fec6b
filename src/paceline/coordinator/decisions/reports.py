"""What servers, the launcher and observers say.

What a server does next, from the coordinator's state and the server's report.

Level-triggered: orders are computed anew for every report, so losing, repeating or
delaying reports and orders changes nothing. The order of the list matters: rounds are
committed before an incarnation that contributed to them is fenced, and before a
snapshot at those rounds.

Pure.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec

from paceline.config import MOST_TRAINERS
from paceline.coordinator.decisions.checkpoints import fail_cut
from paceline.coordinator.decisions.membership import exited, lose
from paceline.coordinator.decisions.status import job_status
from paceline.coordinator.durable import CutRecord, Durable, PartRecord, decode_queue
from paceline.coordinator.durable.outcomes import JobBroken, Scaled, ServerJoined
from paceline.coordinator.ledgers import Asker, Book, Loss, OpenCut
from paceline.messages.server import (
    CommitRound,
    ConfirmTracked,
    CreatePart,
    CutReport,
    EndPart,
    Fence,
    FenceReport,
    Forget,
    MarksReport,
    Order,
    Orders,
    PartReport,
    Restore,
    SendMarks,
    ServerReport,
    ShutDown,
    Snapshot,
    TakePaces,
)
from paceline.messages.shared import Done
from paceline.messages.watching import (
    AskStatus,
    Interrupt,
    LauncherOrders,
    LauncherReport,
    Scale,
)
from paceline.pace.policy import steps_locally


def plan_restore(state: Durable) -> Restore:
    """The order that brings a server to the last cut on the current timeline."""
    cut = state.cut
    if cut is None:
        return Restore(
            timeline=state.timeline, cut=0, folder=None, plans=(), files=(), rounds={}
        )
    return Restore(
        timeline=state.timeline,
        cut=cut.cut,
        folder=cut.folder,
        plans=tuple(state.parts[part].plan for part in cut.parts),
        files=tuple(entry for entries in cut.files.values() for entry in entries),
        rounds=cut.rounds,
        without_state=tuple(
            part
            for part in cut.parts
            for plan in [state.parts[part].plan]
            if plan.has_ended or (part in cut.outer) != steps_locally(plan.spec.pace)
        ),
    )


def _plan_entry(state: Durable, report: ServerReport) -> Restore | TakePaces:
    """The order that brings a server on to the current timeline."""
    is_behind = report.timeline == state.timeline - 1
    if state.repaced is None or not is_behind or not report.ready:
        return plan_restore(state)
    plans = tuple(record.plan for _, record in sorted(state.parts.items()))
    without_state = state.repaced
    return TakePaces(
        timeline=state.timeline,
        plans=plans,
        without_state=without_state,
        steps=state.steps,
    )


def plan_orders(
    state: Durable,
    report: ServerReport,
    *,
    open_cut: OpenCut | None,
    fences: Mapping[int, Container[str]],
    has_marks: bool,
) -> tuple[Order, ...]:
    """Orders for the server that sent ``report``.

    ``fences`` are the servers by which each lost incarnation is fenced; ``has_marks``: it
    has sent its marks after the last return.
    """
    if report.timeline != state.timeline:
        return (_plan_entry(state, report),)
    if not report.ready:
        return ()
    orders: list[Order] = []
    for part in sorted(state.parts):
        _plan_part(state.parts[part], report.parts.get(part), orders)
    if state.cut is not None and report.forgotten_cut < state.cut.cut:
        orders.append(plan_forget(state.cut))
    if state.is_returning and not has_marks:
        orders.append(SendMarks())  # of open tasks only, since the others are forgotten
    if state.settling:
        orders += _plan_fences(state, report.server, fences)
    is_news = state.tracked and state.tracked != report.tracked
    if is_news and report.server == min(state.servers, default=""):
        orders.append(ConfirmTracked(number=state.tracked))
    if open_cut is not None and open_cut.awaits(report.server):
        orders.append(
            Snapshot(
                cut=open_cut.cut,
                folder=open_cut.folder,
                rounds=open_cut.rounds,
                steps=open_cut.steps,
            )
        )
    return tuple(orders)


def _plan_part(record: PartRecord, stands: PartReport | None, orders: list[Order]) -> None:
    part = record.plan.spec.part
    if stands is None:
        orders.append(CreatePart(plan=record.plan))
    elif record.plan.has_ended and not stands.has_ended:
        orders.append(EndPart(part=part))
    applied = stands.applied_round if stands is not None else 0
    if applied == record.round:
        return
    for r in record.recent:
        if applied < r.round <= record.round:
            order = CommitRound(part=part, round=r.round, contributions=r.contributions)
            orders.append(order)


def _plan_fences(
    state: Durable, server: str, fences: Mapping[int, Container[str]]
) -> list[Fence]:
    rounds, steps = state.committed_rounds(), state.steps
    return [
        Fence(incarnation=i, keys=keys, rounds=rounds, step=steps.get(i, {}))
        for i, keys in sorted(state.settling.items())
        if server not in fences.get(i, ())
    ]


def plan_forget(cut: CutRecord) -> Forget:
    """The marks that a committed cut makes superfluous."""
    queue = decode_queue(cut.queue)
    kept = tuple(sorted(queue.open | queue.failed))
    stage, epoch, below = queue.stage, queue.epoch, queue.next_fresh
    return Forget(cut=cut.cut, stage=stage, epoch=epoch, below=below, kept=kept)


def server_reported(book: Book, asker: Asker, report: ServerReport) -> None:
    """Take note of a server's report; answer with orders, or let it wait for some."""
    state, server, ticket = book.durable, report.server, asker.ticket
    live = state.servers.get(server)
    if report.incarnation == 0:
        if live is not None:
            reason = f"{server} joined again from process {report.pid}"
            lose(book, Loss(live, "replaced", reason))
        if book.is_finishing:
            book.reply(ticket, _shut_down(0, "the job is over"))
            return
        live = state.next_incarnation
        book.commit(ServerJoined(server, live))
        book.servers.replaced(server)
        book.members.heard(live, book.now).pid = report.pid
        book.reply(ticket, Orders(incarnation=live))
        return
    if live != report.incarnation:
        text = f"incarnation {report.incarnation} of {server} is over"
        book.reply(ticket, _shut_down(report.incarnation, text))
        return
    info = book.members.heard(live, book.now)
    info.pid, info.host, info.address = report.pid, report.host, report.address
    info.state = "ready" if report.ready else "restoring"
    book.servers.reports[server] = report
    if report.load is not None:
        book.servers.loads[server] = report.load
    if report.broken is not None and state.broken is None:
        book.commit(JobBroken(report.broken))
    if report.timeline == state.timeline:
        for answer in report.answers:
            _REPORTED[type(answer)](book, server, answer)
        if book.cutting.open is not None and report.pinned_cut == book.cutting.open.cut:
            book.cutting.open.pin(server)
    book.park(book.questions.servers, server, asker, report)


def answer_servers(book: Book) -> None:
    """Send orders to every waiting server for which there are any."""
    waiting, told = book.questions.servers, book.servers
    due = waiting.due(book.now) if book.now >= book.first_due_s else []
    for server, _ in due:
        waiting.take(server)
    for server, parked in due + waiting.to_look_at(book.cause_of_orders()):
        report = told.reports[server]  # whoever is lost waits no longer
        if book.is_finishing:
            book.reply(parked.ticket, _shut_down(report.incarnation, "the job is over"))
            waiting.take(server)
            continue
        orders = plan_orders(
            book.durable,
            report,
            open_cut=book.cutting.open,
            fences=told.fences,
            has_marks=server in told.marks,
        )
        if orders or parked.until_s <= book.now:
            book.reply(parked.ticket, Orders(incarnation=report.incarnation, orders=orders))
            waiting.take(server)


def launcher_reported(book: Book, asker: Asker, report: LauncherReport) -> None:
    """Take note of ended processes; say which roles must be replaced."""
    for end in report.exits:
        exited(book, end)
    book.no_room = report.no_room
    book.is_finishing = book.is_finishing or report.finishing
    book.cutting.is_saving = book.cutting.is_saving or report.saving
    if report.interrupted or book.is_finishing:
        book.is_interrupted = False
        for ticket in list(book.questions.interrupts.asked):
            book.questions.interrupts.take(ticket)
            book.reply(ticket, Done())
    orders = LauncherOrders(
        status=job_status(book),
        replace=dict(book.servers.to_replace),
        unreached=dict(book.servers.unreached),
        trainers=book.durable.wanted_trainers,
        is_saved=book.is_saved(),
        is_interrupted=book.is_interrupted,
    )
    book.reply(asker.ticket, orders)


def scale_asked(book: Book, asker: Asker, message: Scale) -> None:
    """Change how many trainers there are to be; the launcher makes it so."""
    least, most = book.config.trainers, book.config.most_trainers
    least, most = (least, most) if most else (1, MOST_TRAINERS)
    allowed = f"{least} to {most}"
    if not least <= message.trainers <= most or message.trainers < 1:
        text = f"expected {allowed} trainers, got {message.trainers}"
        book.refuse(asker.ticket, "invalid", text)
        return
    if book.durable.wanted_trainers != message.trainers:
        book.commit(Scaled(message.trainers))
    book.reply(asker.ticket, Done())


def interrupt_asked(book: Book, asker: Asker, message: Interrupt) -> None:
    """Let the launcher end the run; answered when it knows."""
    if book.is_finishing or book.durable.broken is not None:
        book.refuse(asker.ticket, "invalid", "the job is over")
        return
    book.is_interrupted = True
    book.park(book.questions.interrupts, asker.ticket, asker, message)


def status_asked(book: Book, asker: Asker, _: AskStatus) -> None:
    """Say how the job stands."""
    book.reply(asker.ticket, job_status(book))


def _shut_down(incarnation: int, reason: str) -> Orders:
    return Orders(incarnation=incarnation, orders=(ShutDown(reason=reason),))


def _fenced(book: Book, server: str, report: FenceReport) -> None:
    if report.incarnation in book.durable.settling:
        book.servers.fences.setdefault(report.incarnation, {})[server] = report.marks


def _marked(book: Book, server: str, report: MarksReport) -> None:
    if report.timeline == book.durable.timeline:
        book.servers.marks[server] = report


def _cut_written(book: Book, server: str, report: CutReport) -> None:
    cut = book.cutting.open
    if cut is None or cut.cut != report.cut:
        return
    if report.error is not None:
        fail_cut(book, book.cutting, report.error, server, is_refused=report.is_refused)
    else:
        cut.reported(server, report)


_REPORTED: dict[type[msgspec.Struct], Callable[[Book, str, Any], None]] = {
    FenceReport: _fenced,
    MarksReport: _marked,
    CutReport: _cut_written,
}
