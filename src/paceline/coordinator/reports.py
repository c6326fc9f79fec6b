"""What servers, the launcher and observers say.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.coordinator.cut_decisions import fail_cut
from paceline.coordinator.losses import exited, lose
from paceline.coordinator.members import Loss
from paceline.coordinator.orders import plan_orders
from paceline.coordinator.outcomes import JobBroken, Scaled, ServerJoined
from paceline.coordinator.parking import Parked
from paceline.coordinator.repacing import pace_asked
from paceline.coordinator.status import job_status
from paceline.messages import (
    AskStatus,
    ChangePace,
    CutReport,
    Done,
    FenceReport,
    LauncherOrders,
    LauncherReport,
    MarksReport,
    Orders,
    Refusal,
    Scale,
    ServerReport,
    ShutDown,
)


def server_reported(book: Book, ticket: int, report: ServerReport) -> None:
    """Take note of a server's report; answer with orders, or let it wait for some."""
    state, server = book.durable, report.server
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
        book.to_replace.pop(server, None)
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
    book.reports[server] = report
    if report.broken is not None and state.broken is None:
        book.commit(JobBroken(report.broken))
    if report.timeline == state.timeline:
        _take_answers(book, report)
        if book.open_cut is not None and report.pinned_cut == book.open_cut.cut:
            book.open_cut.pin(server)
    book.park_report(ticket, report)


def answer_servers(book: Book) -> None:
    """Send orders to every waiting server for which there are any."""
    due = _take_due(book)
    gate = _what_orders_follow_from(book)
    for server, parked in due + book.idle_servers.to_look_at(gate):
        report = book.reports.get(server)
        if report is None or book.durable.servers.get(server) != report.incarnation:
            book.idle_servers.take(server)
            continue
        if book.is_finishing:
            book.reply(parked.ticket, _shut_down(report.incarnation, "the job is over"))
            book.idle_servers.take(server)
            continue
        orders = plan_orders(
            book.durable,
            report,
            open_cut=book.open_cut,
            fenced={inc for inc, seen in book.fences.items() if server in seen},
            has_marks=server in book.marks,
        )
        if orders or parked.until_s <= book.now:
            book.reply(parked.ticket, Orders(incarnation=report.incarnation, orders=orders))
            book.idle_servers.take(server)


def _take_due(book: Book) -> list[tuple[str, Parked]]:
    taken = []
    while (due := book.idle_servers.oldest_due(book.now)) is not None:
        book.idle_servers.take(due[0])
        taken.append(due)
    return taken


def _what_orders_follow_from(book: Book) -> object:
    """All that orders depend on, but the server's own report.

    As long as nothing was decided it is what it was.
    """
    state = book.durable
    cut = None if book.open_cut is None else book.open_cut.cut
    here = (book.revision, book.is_finishing, cut)
    known, gate = book.orders_gate
    if here != known:
        gate = (
            (state.timeline, state.is_returning, book.is_finishing, state.tracked),
            (state.generation, state.committed_rounds(), tuple(state.settling)),
            None if state.cut is None else state.cut.cut,
            cut,
        )
        book.orders_gate = (here, gate)
    return gate


def launcher_reported(book: Book, ticket: int, report: LauncherReport) -> None:
    """Take note of ended processes; say which servers must be replaced."""
    for end in report.exits:
        exited(book, end)
    book.is_finishing = book.is_finishing or report.finishing
    book.is_saving = book.is_saving or report.saving
    orders = LauncherOrders(
        status=job_status(book),
        replace=dict(book.to_replace),
        trainers=book.durable.wanted_trainers,
        is_saved=book.is_saved(),
    )
    book.reply(ticket, orders)


def operator_asked(book: Book, ticket: int, message: Scale | ChangePace) -> None:
    """Change the pace, or how many trainers there are to be; the launcher makes it so."""
    if isinstance(message, ChangePace):
        pace_asked(book, ticket, message)
        return
    least, most = book.config.trainers, book.config.most_trainers
    allowed = f"{least} to {most}" if most else "at least 1"
    if message.trainers < 1 or (most and not least <= message.trainers <= most):
        text = f"expected {allowed} trainers, got {message.trainers}"
        timeline = book.durable.timeline
        book.reply(ticket, Refusal(kind="invalid", text=text, timeline=timeline))
        return
    if book.durable.wanted_trainers != message.trainers:
        book.commit(Scaled(message.trainers))
    book.reply(ticket, Done())


def observer_asked(book: Book, ticket: int, message: AskStatus) -> None:
    """Say how the job stands."""
    assert isinstance(message, AskStatus)
    book.reply(ticket, job_status(book))


def _shut_down(incarnation: int, reason: str) -> Orders:
    return Orders(incarnation=incarnation, orders=(ShutDown(reason=reason),))


def _take_answers(book: Book, report: ServerReport) -> None:
    for answer in report.answers:
        if isinstance(answer, FenceReport):
            if answer.incarnation in book.durable.settling:
                seen = book.fences.setdefault(answer.incarnation, {})
                seen[report.server] = answer.marks
        elif isinstance(answer, MarksReport):
            if answer.timeline == book.durable.timeline:
                book.marks[report.server] = answer
        else:
            _take_cut_report(book, report.server, answer)


def _take_cut_report(book: Book, server: str, report: CutReport) -> None:
    cut = book.open_cut
    if cut is None or cut.cut != report.cut:
        return
    if report.error is not None:
        fail_cut(book, report.error, server)
    else:
        cut.reported(server, report)
