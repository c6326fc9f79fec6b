"""What follows from how things stand, looked at after every event.

Rounds close, epochs and stages end, cuts begin and are committed, parts are planned,
leases are granted, waits end. Each function looks at one of these; `look_again` repeats
them until none decides anything more.

Pure.
"""

from typing import TypeVar

from paceline.coordinator import averaging
from paceline.coordinator.book import Book, Parked
from paceline.coordinator.cut_decisions import (
    cut_reason,
    look_at_cut,
    look_at_saves,
    waits_for_cut,
)
from paceline.coordinator.durable import PartRecord
from paceline.coordinator.grants import grant, is_mid_step
from paceline.coordinator.losses import settle
from paceline.coordinator.outcomes import (
    EpochEnded,
    JobBroken,
    PartPlanned,
    UploadGranted,
)
from paceline.coordinator.placement import plan_part
from paceline.coordinator.reports import answer_servers
from paceline.coordinator.requests import reply_ticked, ticked
from paceline.coordinator.stops import is_stopped_before
from paceline.coordinator.tasks import is_epoch_over, is_last_epoch
from paceline.coordinator.tracking import reason_to_wait
from paceline.coordinator.unreadable import look_at_unreadable
from paceline.messages import (
    AskLease,
    Granted,
    PartAnswer,
    Save,
    SharePart,
    StageOver,
    Tick,
    Waiting,
)

_Key = TypeVar("_Key")


def look_again(book: Book) -> None:
    """Decide all that can be decided now."""
    before = -1
    while before != book.num_outcomes():
        before = book.num_outcomes()
        settle(book)
        look_at_unreadable(book)
        _look_at_parts(book)
        look_at_cut(book)
        if book.open_cut is None or book.open_cut.is_pinned():
            _look_at_rounds(book)
        _look_at_epoch(book)
        _look_at_leases(book)
        look_at_saves(book)
    answer_servers(book)


def end_waits(book: Book) -> None:
    """Answer every question that has been parked for its time with the reason."""
    _end_waits(book, book.leases)
    _end_waits(book, book.ticks)
    _end_waits(book, book.shares)
    _end_waits(book, book.saves)


def _end_waits(book: Book, parked_by_key: dict[_Key, Parked]) -> None:
    due = [key for key, parked in parked_by_key.items() if parked.until_s <= book.now]
    for key in due:
        parked = parked_by_key[key]
        book.reply(parked.ticket, Waiting(reason=wait_reason(book, parked)))
        del parked_by_key[key]  # it was counted among those who wait


def wait_reason(book: Book, parked: Parked) -> str:
    """What a parked question waits for."""
    message = parked.message
    if isinstance(message, Tick):
        if book.open_cut is not None and not book.open_cut.is_pinned():
            return f"cut {book.open_cut.cut} is being taken"
        missing = book.rounds.missing(message.part, book.durable)
        return f"round {message.round} waits for {', '.join(missing)}"
    if isinstance(message, Save):
        return cut_reason(book)
    if isinstance(message, AskLease) and (book.open_cut or waits_for_cut(book)):
        return cut_reason(book)
    if isinstance(message, SharePart):
        return book.wait_reason() or f"part {message.spec.part} has no values yet"
    return book.wait_reason() or _why_no_lease(book)


def _why_no_lease(book: Book) -> str:
    state = book.durable
    if not state.has_started:
        here, wanted = len(book.leases), book.first_trainers()
        return f"{here} of {wanted} trainers have asked for work"
    if state.settling:
        return "servers fence a lost trainer"
    if is_mid_step(book):
        return "others are between two parts of a step"
    tracked = averaging.reason_to_wait(book) or reason_to_wait(book)
    if tracked is not None:
        return tracked
    holders = sorted({record.trainer for record in state.queue.pending.values()})
    return f"the epoch's last tasks are with {', '.join(holders) or 'nobody'}"


def _look_at_parts(book: Book) -> None:
    state = book.durable
    for (incarnation, part), parked in list(book.shares.items()):
        message = parked.message
        assert isinstance(message, SharePart)
        record = state.parts.get(part)
        if record is None:
            if not book.servers_ready() or state.is_returning:
                continue
            book.commit(PartPlanned(plan_part(message.spec, state, book.config)))
            record = state.parts[part]
        is_created = _is_created(book, part)
        may_upload = is_created and record.uploader == 0 and not state.settling
        if not record.is_ready and may_upload:
            book.commit(UploadGranted(part, incarnation))
        if record.is_ready or (is_created and record.uploader == incarnation):
            _answer_share(book, incarnation, part, record)


def _answer_share(book: Book, incarnation: int, part: int, record: PartRecord) -> None:
    parked = book.shares.pop((incarnation, part))
    answer = PartAnswer(plan=record.plan, upload=not record.is_ready)
    book.reply(parked.ticket, answer)


def _is_created(book: Book, part: int) -> bool:
    return book.servers_ready() and all(part in r.parts for r in book.reports.values())


def _look_at_rounds(book: Book) -> None:
    for part in book.rounds.ticked_parts():
        committed = book.rounds.decide_round(part, book.durable)
        if committed is None:
            continue
        book.commit(committed)
        waiting = []
        for incarnation in committed.ticked:
            parked = book.ticks.pop((incarnation, part), None)
            if parked is not None:
                assert isinstance(parked.message, Tick)
                ticked(book, parked.message)
                waiting.append(parked)
        for parked in waiting:  # every task is closed before the first lease is granted
            assert isinstance(parked.message, Tick)
            reply_ticked(book, parked.role, parked.ticket, parked.message)


def _look_at_epoch(book: Book) -> None:
    state = book.durable
    if not is_epoch_over(state) or is_last_epoch(state) or state.stopped is not None:
        return
    if len(state.queue.failed) == _num_tasks(book):
        reason = f"all tasks of epoch {state.queue.epoch} failed"
        if state.broken is None:
            book.commit(JobBroken(reason))
        return
    book.commit(EpochEnded(state.queue.stage, state.queue.epoch))


def _num_tasks(book: Book) -> int:
    spec = book.durable.stage_spec()
    return spec.num_tasks() if spec is not None else 0


def _look_at_leases(book: Book) -> None:
    state = book.durable
    for incarnation, parked in sorted(book.leases.items(), key=lambda item: item[1].role):
        message = parked.message
        assert isinstance(message, AskLease)
        if incarnation not in book.leases:
            continue  # it was told to keep its tracked state first
        if message.stage < state.queue.stage or is_stopped_before(state, message.stage):
            book.leases.pop(incarnation)
            kept = averaging.state_of_end(book, message.stage)
            over = StageOver(stopped=state.stopped, cut=state.last_cut(), tracked=kept)
            book.reply(parked.ticket, over)
            continue
        if message.stage > state.queue.stage:
            continue
        held = {token for token, _ in message.held}
        lease = next(
            (
                record.lease
                for record in state.queue.pending.values()
                if record.incarnation == incarnation and record.lease.token not in held
            ),
            None,
        ) or grant(book, parked.role, incarnation)
        if lease is not None:
            book.leases.pop(incarnation)
            book.reply(parked.ticket, Granted(lease=lease))
