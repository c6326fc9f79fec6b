"""What a tick does: tasks go on or are done, and the trainer may get its next lease.

Leases that their holder gives back: how far it came, and why it goes no further.

Pure.
"""

from paceline.coordinator.decisions.leases import (
    acknowledge_task,
    grant,
    is_pending,
    leave_block,
)
from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import PushLate, TaskReturned
from paceline.coordinator.ledgers import (
    Asker,
    Book,
    Page,
    Speeds,
    TaskProgress,
    TrainersSeen,
)
from paceline.coordinator.ledgers.effects import Happened
from paceline.errors import HAS_ENDED
from paceline.messages.trainer import FailTask, HandBack, Tick, Ticked
from paceline.pace.policy import adapts_steps, backups_of, carries_over, updates_in_rounds


def tick_asked(book: Book, asker: Asker, message: Tick) -> None:
    """A trainer has pushed: what it says counts, waits for its round, or is refused."""
    if message.spent is not None:
        book.members.heard(message.incarnation, book.now).note_spent(message.spent)
    part = book.durable.parts.get(message.part)
    if part is None:
        text = f"part {message.part} is not shared on timeline {message.timeline}"
        book.refuse(asker.ticket, "invalid", text)
    elif part.plan.has_ended:
        text = HAS_ENDED.format(part=message.part)
        book.refuse(asker.ticket, "mismatch", text)
    elif message.round is None:
        book.deadlines.progressed(message.incarnation, message.records, book.now)
        if message.clock is not None:
            book.clocks.tell(message.incarnation, message.clock, book.durable.queue)
        book.keeping.applied()
        ticked(book, message)
        note_speed(book, book.speeds, message)
        reply_ticked(book, asker.role, asker.ticket, message)
    elif has_ticked(book.durable, message):
        book.keeping.applied()
        ticked(book, message)
        reply_ticked(book, asker.role, asker.ticket, message)
    elif may_tick(book.durable, message):
        book.deadlines.stopped(message.incarnation, message.records, book.now)
        book.rounds.tick(asker.role, message, book.now)
        key = (message.incarnation, message.part)
        book.park(book.questions.ticks, key, asker, message)
    elif message.round <= part.round and backups_of(part.plan.spec.pace):
        came_late(book, asker.role, asker.ticket, message)
    else:
        text = (
            f"round {message.round} of part {message.part} closed without {asker.role}; "
            f"the last committed one is {part.round}"
        )
        book.refuse(asker.ticket, "stale", text)


def has_ticked(state: Durable, tick: Tick) -> bool:
    """Whether a committed round has this tick, whose answer was lost.

    Who only keeps others company does so in a round that waits for all, and in no other.
    """
    part = state.parts[tick.part]
    assert tick.round is not None, "without rounds a tick is counted as it comes"
    if tick.round > part.round and not carries_over(part.plan.spec.pace):
        return False  # seen without looking at each trainer's last push
    return not tick.is_prepared or part.counted.get(tick.incarnation, 0) >= tick.number


def may_tick(state: Durable, tick: Tick) -> bool:
    """Whether the open round can have this tick, and its window is the asker's to apply.

    A lease may be back in the queue.
    """
    part, queue = state.parts[tick.part], state.queue
    stage, epoch, spans = tick.window
    pace = part.plan.spec.pace
    if tick.round != part.round + 1 and not carries_over(pace):
        return False
    if not updates_in_rounds(pace):
        return False
    if (stage, epoch) != (queue.stage, queue.epoch):
        return False
    for span in spans:
        record = queue.pending.get(span.task)
        if record is None or record.incarnation != tick.incarnation:
            return False
    return True


def ticked(book: Book, tick: Tick) -> None:
    """A window has its effect: tasks go on, or are done."""
    if tick.refused:
        _note_refused(book, tick)
    queue, (stage, epoch, spans) = book.durable.queue, tick.window
    if (stage, epoch) != (queue.stage, queue.epoch):
        return
    if stage != book.training.stage:
        book.training.begins(stage, book.now, book.count_records())
    book.training.ended_s = book.now
    for span, last in zip(spans, tick.acked, strict=True):
        record = queue.pending.get(span.task)
        if record is not None:
            acknowledge_task(book, book.progress, book.seen, record.lease.key, last)


def _note_refused(book: Book, tick: Tick) -> None:
    """Pushes have had no effect: a line says which, so that their batches can be found."""
    for push in tick.refused:
        pairs = zip(push.window.task_keys(), push.window.spans, strict=True)
        if not any(
            is_pending(book.durable, key) and book.progress.last_acked(key) < span.last
            for key, span in pairs
        ):
            continue  # the answer to this tick was lost, and it comes again
        trainer = book.durable.incarnations().get(tick.incarnation, "")
        fields: dict[str, object] = {"part": tick.part, "trainer": trainer}
        fields |= {"window": str(push.window), "records": push.records}
        fields |= {"reason": push.reason, "norm": push.norm}
        book.effect(Happened("PushRefused", fields))
        if book.governor is not None and push.norm is not None:
            book.governor.refused(push.norm)


def note_speed(page: Page, speeds: Speeds, tick: Tick) -> None:
    """A delta is applied: how fast its trainer is, where that decides how long they are."""
    if adapts_steps(page.durable.parts[tick.part].plan.spec.pace) is not None:
        batches = tick.window.num_batches()
        speeds.came(tick.incarnation, tick.number, batches, page.now)


def came_late(book: Book, trainer: str, ticket: int, tick: Tick) -> None:
    """A round was closed without this tick: its push has no effect, and that is counted."""
    assert tick.round is not None
    who = (tick.incarnation, tick.part)
    if book.seen.last_late.get(who) != tick.number:  # else its answer was lost
        book.seen.last_late[who] = tick.number
        late = (tick.part, tick.round, trainer, tick.incarnation, tick.number, tick.records)
        book.commit(PushLate(*late))
    book.deadlines.goes_on(tick.incarnation, book.durable.queue, book.now)
    round_now, stopped = book.durable.parts[tick.part].round, book.durable.stopped
    book.reply(
        ticket,
        Ticked(
            late=round_now,
            stopped=stopped,
            records=told_records(book, tick),
            pauses=book.pauses(),
        ),
    )


def reply_ticked(book: Book, trainer: str, ticket: int, tick: Tick) -> None:
    """Answer a tick, with the next lease if the trainer wants one and there is one."""
    lease, is_fresh = None, False
    # One who repeats a late tick of a stage that is over has that stage's data at hand.
    if tick.next_lease and tick.window.stage == book.durable.queue.stage:
        known = set(tick.window.task_keys())
        held = book.durable.queue.held_by(tick.incarnation).values()
        lease = next((one.lease for one in held if one.lease.key not in known), None)
        if lease is None:
            lease = grant(book, trainer, tick.incarnation)
            is_fresh = lease is not None
    done = book.seen.records.get(trainer, 0)
    book.seen.records[trainer] = done + tick.records
    if not is_fresh:  # whoever is granted a lease has its clock started with it
        book.deadlines.goes_on(tick.incarnation, book.durable.queue, book.now)
    track = tick.ends_step and book.keeping.track_from == tick.incarnation
    slowest = None if tick.clock is None else book.clocks.slowest(book.durable.queue)
    part = book.durable.parts[tick.part]
    every = adapts_steps(part.plan.spec.pace) if tick.round is None else None
    steps = None if every is None else book.speeds.steps_of(tick.incarnation, every)
    book.reply(
        ticket,
        Ticked(
            lease=lease,
            stopped=book.durable.stopped,
            track=track,
            slowest=slowest,
            records=told_records(book, tick),
            pauses=book.pauses(),
            round=part.round if carries_over(part.plan.spec.pace) else None,
            steps=steps,
        ),
    )


def told_records(page: Page, tick: Tick) -> int:
    """Records of the job that were acknowledged, the same for all who ticked a round.

    What is computed from them (a learning rate) must be the same for all of its
    contributors, also for one whose answer was lost and who ticks again.
    """
    if tick.round is None:
        in_rounds = page.sync_parts()
        return page.durable.round_records if in_rounds else page.count_records()
    part = page.durable.parts[tick.part]
    if carries_over(part.plan.spec.pace):  # its push may be in a later round than it says
        return page.durable.round_records
    for outcome in part.recent:
        if outcome.round == tick.round:
            return outcome.records
    return page.durable.round_records


def give_back(
    page: Page,
    progress: TaskProgress,
    seen: TrainersSeen,
    message: HandBack | FailTask,
    acked_by_token: dict[int, int],
) -> None:
    """Put the tasks of these leases back to ``todo``, or close them if they are complete.

    ``acked_by_token`` is {lease: last batch acknowledged in every part}; what the sender
    does not hold is passed over.
    """
    reason, is_carried = _why(message)
    spec = page.durable.stage_spec()
    for record in list(page.durable.queue.held_by(message.incarnation).values()):
        lease = record.lease
        assert spec is not None
        if lease.token not in acked_by_token:
            continue
        first = max(acked_by_token[lease.token], lease.first - 1) + 1
        acknowledge_task(page, progress, seen, lease.key, first - 1)
        if lease.key.task in page.durable.queue.pending:
            edges = tuple(edge for edge in lease.edges if edge >= first)
            failed = isinstance(message, FailTask)
            back = (lease.key, first, edges, failed, reason, lease.voids, is_carried)
            if is_carried:
                leave_block(page.durable, seen, lease.key)
            page.commit(TaskReturned(*back))
            progress.forget(spec, lease.key)


def _why(message: HandBack | FailTask) -> tuple[str, bool]:
    """The reason in words, and whether a cell is carried over."""
    if isinstance(message, FailTask):
        return message.error, False
    is_carried = message.is_carried
    return ("its time is over" if is_carried else "handed back"), is_carried
