"""What trainers ask, one function per question; each answers, or parks.

Ticks, by far the most, are in `paceline.coordinator.decisions.ticks`.

Every question but `JoinTrainer` carries the asker's incarnation and timeline: a dead
incarnation is refused as ``fenced``, an old timeline as ``timeline``, before anything
else is looked at.

Pure.
"""

from functools import cache, singledispatch

from msgspec.structs import replace

from paceline.coordinator.decisions import (
    Asker,
    answer_claim,
    answer_results,
    buffers_kept,
    count_records,
    count_trainers,
    finish_if_done,
    give_back,
    is_heard,
    lose,
    meet,
    must_return,
    pause_of_all,
    peers_of,
    refuse,
    saw_numbers,
    tracked_kept,
    wait_of_all,
    were_set,
)
from paceline.coordinator.durable.outcomes import (
    OnceClaimed,
    PartEnded,
    PartReady,
    StageRegistered,
    StopRequested,
    TrainerJoined,
    TrainerLeft,
)
from paceline.coordinator.ledgers import Book, Loss
from paceline.coordinator.ledgers.effects import Happened
from paceline.messages.beats import Beat, Beaten
from paceline.messages.meeting import AskPeers, DoorOpened, Meet
from paceline.messages.results import AskResults, FinishTask, KeepValue
from paceline.messages.shared import Done, Refusal, TrainerMessage
from paceline.messages.trainer import (
    AskLease,
    AskRecords,
    BeginStage,
    BuffersKept,
    Claimed,
    ClaimOnce,
    Computed,
    FailTask,
    HandBack,
    Joined,
    JoinTrainer,
    Leave,
    Log,
    MayGoOn,
    PartUploaded,
    Records,
    Save,
    SharePart,
    ShuffledAs,
    Stop,
    TrackedKept,
    TrainerRequest,
    UnsharePart,
)
from paceline.messages.values import ClaimValues, ValuesSet
from paceline.pace.changing import why_not_among, why_not_same


def trainer_asked(book: Book, asker: Asker, message: TrainerRequest) -> None:
    """Answer a trainer, park its question, or refuse it."""
    if not isinstance(message, TrainerMessage) or is_heard(book, asker, message):
        _answer_to(type(message))(message, book, asker)


@singledispatch
def _answer(message: TrainerRequest, book: Book, asker: Asker) -> None:
    raise TypeError(f"no answer to {message!r} of {asker} at {book.now}")


@_answer.register
def _(message: JoinTrainer, book: Book, asker: Asker) -> None:
    state, live = book.durable, book.durable.trainers.get(message.trainer)
    if message.trainer != asker.role:
        text = f"{asker.role} asked to join as {message.trainer}"
        book.reply(asker.ticket, refuse(book, "invalid", text))
        return
    if live is None or live != message.previous:
        if live is not None:
            reason = f"{message.trainer} joined again from process {message.pid}"
            lose(book, Loss(live, "replaced", reason))
        live = state.next_incarnation
        book.commit(TrainerJoined(message.trainer, live))
    info = book.members.heard(live, book.now)
    info.pid, info.host, info.state = message.pid, message.host, "joined"
    held_up = None if book.servers_ready() else wait_of_all(book)
    if held_up is None or info.wait is None:  # else it asks again, and waits on
        info.wait, info.wait_s = held_up, book.now
    servers = {
        server: member.address
        for server, incarnation in sorted(state.servers.items())
        if (member := book.members.info(incarnation)) is not None
    }
    book.reply(
        asker.ticket,
        Joined(
            incarnation=live,
            timeline=state.timeline,
            generation=state.generation,
            pace=book.config.pace,
            seed=book.config.seed,
            servers=servers if held_up is None else {},
            wait=held_up,
            beat_s=min(1.0, book.config.timeout_s / 5),
            undone=tuple(state.undone),
            returned=state.returned,
            trainers=count_trainers(book),
        ),
    )


@_answer.register
def _(message: SharePart, book: Book, asker: Asker) -> None:
    record = book.durable.parts.get(message.spec.part)
    if record is not None:
        reason = why_not_same(record.plan.spec, message.spec)
        if reason is not None:
            book.reply(asker.ticket, refuse(book, "mismatch", reason))
            return
    others = list(book.durable.trained().values())
    reason = None if record else why_not_among(others, message.spec)
    if reason is not None:
        book.reply(asker.ticket, refuse(book, "mismatch", f"share: {reason}"))
        return
    book.park_share(asker.ticket, asker.role, message)


@_answer.register
def _(message: PartUploaded, book: Book, asker: Asker) -> None:
    record = book.durable.parts.get(message.part)
    if record is not None and not record.is_ready:
        if record.uploader != message.incarnation:
            text = f"part {message.part} is uploaded by incarnation {record.uploader}"
            book.reply(asker.ticket, refuse(book, "stale", text))
            return
        book.commit(PartReady(message.part))
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: UnsharePart, book: Book, asker: Asker) -> None:
    record = book.durable.parts[message.part]
    if not record.plan.has_ended:
        book.commit(PartEnded(message.part))
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: BeginStage, book: Book, asker: Asker) -> None:
    agreed = book.durable.stages.get(message.spec.stage)
    if agreed is None:
        book.commit(StageRegistered(message.spec))
    elif agreed == replace(message.spec, loop=agreed.loop):
        if agreed.loop != message.spec.loop:
            book.reply(asker.ticket, ShuffledAs(loop=agreed.loop))
            return
    else:
        text = (
            f"stage {agreed.stage} was begun with {agreed}, {asker.role} brings "
            f"{message.spec}: all trainers must bring the same data, sizes and seed"
        )
        book.reply(asker.ticket, refuse(book, "mismatch", text))
        return
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: AskLease, book: Book, asker: Asker) -> None:
    book.asked_stage[asker.role] = message.stage
    if message.stage > book.asked_first[0]:
        book.asked_first = (message.stage, book.now)
    acked_by_token = dict(message.held)
    for record in list(book.durable.queue.held_by(message.incarnation).values()):
        lease = record.lease
        if lease.token in acked_by_token:
            book.progress.advance(lease.key, acked_by_token[lease.token])
            finish_if_done(book, lease.key)
    if not book.durable.queue.held_by(message.incarnation):
        book.speeds.rests(message.incarnation)
    book.park_lease(asker.ticket, asker.role, message)


@_answer.register
def _(message: MayGoOn, book: Book, asker: Asker) -> None:
    book.clocks.tell(message.incarnation, message.clock, book.durable.queue)
    book.deadlines.pause(message.incarnation)
    book.park_ahead(asker.ticket, asker.role, message)


@_answer.register
def _(message: TrackedKept | BuffersKept, book: Book, asker: Asker) -> None:
    if isinstance(message, TrackedKept):
        tracked_kept(book, message)
    else:
        buffers_kept(book, message)
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: HandBack, book: Book, asker: Asker) -> None:
    acked_by_token = dict(zip(message.tokens, message.acked, strict=True))
    give_back(book, message, acked_by_token)
    book.rounds.drop(asker.role)
    book.start_clock(message.incarnation)
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: FailTask, book: Book, asker: Asker) -> None:
    give_back(book, message, {message.token: message.acked})
    book.rounds.drop(asker.role)
    book.start_clock(message.incarnation)
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: FinishTask | AskResults | KeepValue, book: Book, asker: Asker) -> None:
    book.reply(asker.ticket, answer_results(book, message))


@_answer.register
def _(message: Beat, book: Book, asker: Asker) -> None:
    info = book.members.heard(message.incarnation, book.now)
    if message.evaluated > info.evaluated:
        info.evaluated = message.evaluated
        book.deadlines.has_begun(message.incarnation)
        book.start_clock(message.incarnation)
    is_current = message.timeline == book.durable.timeline
    if message.bounded_clock is not None and is_current:
        book.clocks.tell(message.incarnation, message.bounded_clock, book.durable.queue)
    info.clock = max(info.clock, message.clock)
    info.state = message.state or info.state
    info.wait, info.wait_s = message.wait, book.now
    state, pauses = book.durable, pause_of_all(book) is not None
    beaten = Beaten(timeline=state.timeline, stopped=state.stopped, pauses=pauses)
    book.reply(asker.ticket, beaten)


@_answer.register
def _(message: ClaimOnce, book: Book, asker: Asker) -> None:
    once = book.durable.once
    if message.name not in once:
        book.commit(OnceClaimed(message.name, asker.role))
    book.reply(asker.ticket, Claimed(mine=once[message.name] == asker.role))


@_answer.register
def _(message: ClaimValues, book: Book, asker: Asker) -> None:
    book.reply(asker.ticket, answer_claim(book, message))


@_answer.register
def _(message: ValuesSet, book: Book, asker: Asker) -> None:
    book.reply(asker.ticket, were_set(book, message))


@_answer.register
def _(message: Stop, book: Book, asker: Asker) -> None:
    if book.durable.stopped is None:
        book.commit(StopRequested(message.reason))
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: Log, book: Book, asker: Asker) -> None:
    book.metrics.note(message.numbers, message.ages_s, book.now)
    saw_numbers(book, message.numbers)
    fields: dict[str, object] = {
        "trainer": asker.role,
        "records": count_records(book),
        "numbers": message.numbers,
    }
    book.effect(Happened("log", fields))
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: Computed, book: Book, asker: Asker) -> None:
    told = {name: getattr(message, name) for name in ("batches", "seconds", "mean_s")}
    book.effect(Happened("computed", {"trainer": asker.role, **told}))
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: Save, book: Book, asker: Asker) -> None:
    if book.durable.broken is not None:
        text = f"the job has failed: {book.durable.broken}"
        book.reply(asker.ticket, Refusal(kind="invalid", text=text))
        return
    if message.left is not None:
        book.asked_stage[asker.role] = message.left + 1
    book.park_save(asker.ticket, asker.role, message)


@_answer.register
def _(message: Leave, book: Book, asker: Asker) -> None:
    holds = bool(book.durable.queue.held_by(message.incarnation))
    uploads = any(
        record.uploader == message.incarnation for record in book.durable.parts.values()
    )
    takes_along = must_return(book, message.incarnation)
    sets = book.setter == message.incarnation
    if (
        holds or uploads or takes_along or sets
    ):  # half done: it is fenced, as if it had died
        loss = Loss(message.incarnation, "exited", f"{asker.role} left in the middle")
        lose(book, loss)
    else:
        book.commit(TrainerLeft(asker.role, message.incarnation, message.is_done))
        book.rounds.drop(asker.role)
        book.asked_stage.pop(asker.role, None)
        book.unpark(message.incarnation)
        book.members.forget(message.incarnation)
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: AskRecords, book: Book, asker: Asker) -> None:
    assert message.incarnation
    book.reply(asker.ticket, Records(records=count_records(book)))


@_answer.register
def _(message: DoorOpened, book: Book, asker: Asker) -> None:
    book.members.heard(message.incarnation, book.now).address = message.address
    book.reply(asker.ticket, Done())


@_answer.register
def _(message: AskPeers, book: Book, asker: Asker) -> None:
    assert message.incarnation
    book.reply(asker.ticket, peers_of(book))


@_answer.register
def _(message: Meet, book: Book, asker: Asker) -> None:
    meet(book, asker.role, asker.ticket, message)


# By the message's type, once looked for: `singledispatch` itself looks at every call.
_answer_to = cache(_answer.dispatch)
