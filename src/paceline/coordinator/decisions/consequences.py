"""What follows from how things stand, looked at after every event that may change it.

Rounds close, epochs and stages end, cuts begin and are committed, parts are planned,
leases are granted, those who are ahead go on, waits end. Each function looks at one of
these; `look_again` repeats them until none decides anything more.

Pure.
"""

from typing import TypeVar

from paceline.coordinator.decisions.checkpoints import (
    look_at_cut,
    look_at_saves,
    look_at_unreadable,
    look_at_wishes,
)
from paceline.coordinator.decisions.leases import (
    grant,
    grant_ahead,
    is_drained,
    is_mid_step,
    may_grant,
    participants,
)
from paceline.coordinator.decisions.membership import settle
from paceline.coordinator.decisions.pace_changes import look_at_pace, saw_wait
from paceline.coordinator.decisions.reports import answer_servers
from paceline.coordinator.decisions.rounds import (
    look_at_meetings,
    look_at_standstill,
    look_at_steps,
)
from paceline.coordinator.decisions.ticks import reply_ticked, ticked
from paceline.coordinator.decisions.tracked import (
    buffers_at_end,
    is_current,
    is_tracked,
    state_at_end,
)
from paceline.coordinator.decisions.waits import wait_of
from paceline.coordinator.durable import (
    KEPT_ROUNDS,
    is_stopped_before,
    plan_part,
)
from paceline.coordinator.durable.outcomes import (
    EpochEnded,
    JobBroken,
    PartPlanned,
    UploadGranted,
)
from paceline.coordinator.ledgers import (
    Book,
    Parked,
    is_epoch_over,
    is_last_epoch,
    pick_task,
)
from paceline.messages.shared import Waiting
from paceline.messages.trainer import (
    AskLease,
    GoOn,
    Granted,
    MayGoOn,
    PartAnswer,
    SharePart,
    StageOver,
    Tick,
)
from paceline.messages.waits import Wait
from paceline.pace.changing import why_not_same
from paceline.pace.policy import carries_over, is_within
from paceline.parking import PARK_S, Parking

K = TypeVar("K")


def look_again(book: Book) -> None:
    """Decide all that can be decided now."""
    before = -1
    while before != book.revision:
        before = book.revision
        _look_at_the_job(book)
        if book.rounds.open or book.rounds.meets:
            _look_at_open_rounds(book)
        _look_at_questions(book)
    if book.questions.servers.asked:
        answer_servers(book)


def _look_at_the_job(book: Book) -> None:
    """What was lost or failed, cuts, the pace: nearly always there is nothing of it."""
    state, questions = book.durable, book.questions
    if state.settling or state.is_returning:
        settle(book)
    if book.clocks.are_told:
        book.clocks.drop_idle(state.queue)
    if state.is_returning:
        look_at_unreadable(book, book.cutting, book.servers)
    if state.queue.failed:
        _look_at_failed_tasks(book)
    if questions.shares.asked:
        _look_at_parts(book)
    if _may_be_cut(book):
        look_at_cut(book)
    if book.wish is not None or questions.paces.asked:
        look_at_pace(book)


def _look_at_open_rounds(book: Book) -> None:
    rounds, questions, cut = book.rounds, book.questions, book.cutting.open
    if rounds.meets or questions.meets.asked:
        look_at_meetings(book, rounds, questions)
    if cut is None or cut.is_pinned():
        _look_at_rounds(book)
    if len(rounds.open) + len(rounds.meets) > 1:  # of one part nobody waits for another
        look_at_standstill(book, rounds, questions)


def _look_at_questions(book: Book) -> None:
    questions = book.questions
    if questions.steps.asked:
        look_at_steps(book, questions, book.cutting, book.keeping)
    if not book.durable.queue.pending:
        _look_at_epoch(book)
    if questions.leases.asked:
        _look_at_leases(book)
    if questions.ahead.asked:
        _look_at_clocks(book)
    if questions.saves.asked:
        look_at_saves(book, questions, book.cutting)
    if questions.cuts.asked:
        look_at_wishes(book, questions, book.cutting)


def _may_be_cut(book: Book) -> bool:
    """Whether a cut is open, or one may be due: for a question, a time, a stage's end."""
    cutting, config = book.cutting, book.config
    if cutting.open is not None or cutting.trouble is not None or cutting.is_saving:
        return True
    if book.questions.saves.asked or (cutting.of_wishes and cutting.is_wished()):
        return True
    if not book.durable.queue.pending:
        return True
    is_time = 0 < config.cut_every_s <= book.now - cutting.last_s
    return is_time or config.cut_every_steps > 0 or not book.is_cut_whole()


def end_waits(book: Book) -> None:
    """Answer every question that has been parked for its time with the reason."""
    asked = book.questions
    parkings = (*asked.of_trainers, *asked.of_operators)
    for waiting in parkings:
        for key, parked in waiting.due(book.now):
            saw_wait(book, book.governor, parked)
            _put_off(book, waiting, key, parked)
    parkings = (*parkings, asked.servers)  # of whom none is due any more
    book.first_due_s = min(waiting.first_due_s() for waiting in parkings)


def _put_off(book: Book, waiting: Parking[K, Parked], key: K, one: Parked) -> None:
    """Tell an asker what it waits for; it pushes what is open, and asks again."""
    wait = wait_of(book, one).lasting(book.now - one.since_s)
    book.reply(one.ticket, Waiting(wait=wait, pauses=book.pauses()))
    waiting.put_off(key, wait, book.now)  # it was counted among those who wait


def _look_at_parts(book: Book) -> None:
    state = book.durable
    for (incarnation, part), parked in book.questions.shares.to_look_at(
        _what_shares_wait_for(book)
    ):
        message = parked.message
        assert isinstance(message, SharePart)
        record = state.parts.get(part)
        if record is None:
            if not book.servers_ready() or state.is_returning:
                continue
            book.commit(PartPlanned(plan_part(message.spec, state, book.config)))
            record = state.parts[part]
        reason = why_not_same(record.plan.spec, message.spec)
        if reason is not None:  # two came before there were servers
            book.questions.shares.take((incarnation, part))
            book.refuse(parked.ticket, "mismatch", reason)
            continue
        is_created = _is_created(book, part)
        may_upload = is_created and record.uploader == 0 and not state.settling
        if not record.is_ready and may_upload:
            book.commit(UploadGranted(part, incarnation))
        if record.is_ready or (is_created and record.uploader == incarnation):
            book.questions.shares.take((incarnation, part))
            answer = PartAnswer(plan=record.plan, upload=not record.is_ready)
            book.reply(parked.ticket, answer)


def _what_shares_wait_for(book: Book) -> tuple[object, ...]:
    state = book.durable
    return (
        state.timeline,
        state.is_returning,
        bool(state.settling),
        book.servers_ready(),
        [(p, r.is_ready, r.uploader, _is_created(book, p)) for p, r in state.parts.items()],
    )


def _is_created(book: Book, part: int) -> bool:
    return book.servers_ready() and all(
        part in r.parts for r in book.servers.reports.values()
    )


def _look_at_rounds(book: Book) -> None:
    state, rounds, now = book.durable, book.rounds, book.now
    for part in rounds.ticked_parts():
        if carries_over(state.parts[part].plan.spec.pace):
            rounds.look(part, state, now)
            if not _may_close(book, part):
                continue
        # Whose tracked objects are asked for must stand where the round does.
        needs_all = book.keeping.track_from is not None
        committed = rounds.decide_round(
            part, state, now, book.count_records, needs_all=needs_all
        )
        if committed is None:
            continue
        book.commit(committed)
        book.keeping.applied()  # here, since nobody may be waiting for the answer just now
        waiting = []
        for incarnation in committed.ticked:
            parked = book.questions.ticks.take((incarnation, part))
            if parked is not None:
                tick = parked.message
                assert isinstance(tick, Tick)
                saw_wait(book, book.governor, parked)
                ticked(book, tick)
                waiting.append((parked, tick))
        for parked, tick in waiting:  # every task is closed before a lease is granted
            reply_ticked(book, parked.role, parked.ticket, tick)


def _may_close(book: Book, part: int) -> bool:
    """With a quorum: whether servers have applied as many rounds as are not kept for them.

    Each trainer may have contributed to a round of its own since; who waits for all to
    have pulled the round before knows that by itself.
    """
    if not book.servers_ready():
        return False
    stand = [report.parts[part].applied_round for report in book.servers.reports.values()]
    return min(stand) >= book.durable.parts[part].round + 1 - KEPT_ROUNDS


def _look_at_epoch(book: Book) -> None:
    state = book.durable
    if not is_epoch_over(state) or is_last_epoch(state) or state.stopped is not None:
        return
    if state.broken is None:
        book.commit(EpochEnded(state.queue.stage, state.queue.epoch))


def _look_at_failed_tasks(book: Book) -> None:
    """An epoch of which nothing could be read fails the job, the last one too."""
    state, failed = book.durable, book.durable.queue.failed
    spec = state.stage_spec()
    if state.broken is not None or spec is None or not spec.is_training:
        return
    if len(failed) == spec.num_tasks():
        book.commit(JobBroken("all tasks of an epoch failed"))


def _look_at_leases(book: Book) -> None:
    state = book.durable
    gate = None if book.questions.leases.are_all_new() else _what_asks_wait_for(book)
    asks = book.questions.leases.to_look_at(gate)
    for incarnation, parked in sorted(asks, key=lambda item: item[1].role):
        message = parked.message
        assert isinstance(message, AskLease)
        if incarnation not in book.questions.leases.asked:
            continue  # it was told to keep its tracked state first
        if state.broken is not None:
            book.questions.leases.take(incarnation)
            text = f"the job has failed: {state.broken}"
            book.refuse(parked.ticket, "broken", text)
            continue
        is_stopped = state.stopped is not None and is_stopped_before(state, message.stage)
        if message.stage < state.queue.stage or is_stopped:
            book.questions.leases.take(incarnation)
            keeping, servers = book.keeping, book.servers
            comes = book, keeping, servers, incarnation, message.stage
            over = StageOver(
                stopped=state.stopped,
                cut=state.last_cut(),
                tracked=buffers_at_end(*comes),
                state=state_at_end(book, servers, message.stage),
                has_state=is_current(book, keeping, incarnation),
            )
            book.reply(parked.ticket, over)
            continue
        if message.stage > state.queue.stage:
            continue
        held = {token for token, _ in message.held}
        own = state.queue.held_by(incarnation).values()
        known = next((one.lease for one in own if one.lease.token not in held), None)
        lend = grant_ahead if message.is_ahead else grant
        lease = known or lend(book, parked.role, incarnation)
        if isinstance(lease, Wait):
            book.questions.leases.take(incarnation)
            spent = Waiting(wait=lease, is_spent=True, pauses=book.pauses())
            book.reply(parked.ticket, spent)
        elif lease is not None:
            book.questions.leases.take(incarnation)
            book.reply(parked.ticket, Granted(lease=lease))
        elif message.is_open and book.now < parked.since_s + PARK_S and is_drained(book):
            # Once for each part that it pushes; it cannot ask in vain for long.
            _put_off(book, book.questions.leases, incarnation, parked)


def _look_at_clocks(book: Book) -> None:
    if not book.clocks.are_told:
        return
    slowest = book.clocks.slowest(book.durable.queue)
    if slowest is None:
        return
    for incarnation, parked in book.questions.ahead.to_look_at(slowest):
        ask = parked.message
        assert isinstance(ask, MayGoOn)
        if is_within(ask.staleness, ask.clock.steps, slowest):
            book.questions.ahead.take(incarnation)
            saw_wait(book, book.governor, parked)
            book.deadlines.goes_on(incarnation, book.durable.queue, book.now)
            book.reply(parked.ticket, GoOn(slowest=slowest))


def _what_asks_wait_for(book: Book) -> tuple[object, ...]:
    """All that a grant depends on, but what the asker itself holds."""
    state = book.durable
    queue = state.queue
    return (
        (state.timeline, queue.stage, queue.epoch, queue.next_fresh == 0),
        (state.stopped, state.broken, len(state.stages)),
        (
            may_grant(book),
            is_mid_step(book.durable),
            book.knows_clocks(),
            pick_task(state) is None,
        ),
        (bool(state.settling), book.pauses()),
        (
            book.keeping.is_fresh,
            book.keeping.track_from,
            book.keeping.track_from in book.questions.leases.asked,
        ),
        book.rounds.are_exchanging(state),
        is_tracked(book.durable) and (state.generation, state.committed_rounds()),
        # Which cell is next depends on all cells, and on who is here.
        book.is_rotating()
        and (book.revision, sorted(participants(book.durable, book.seen))),
    )
