"""What trainers ask, one function per question; each answers, or parks.

Ticks, by far the most, go to `paceline.coordinator.decisions.ticks` at once.

Every question but `JoinTrainer` carries the asker's incarnation and timeline: a dead
incarnation is refused as ``fenced``, an old timeline as ``timeline``, before anything
else is looked at.

Pure.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from paceline.coordinator.decisions.leases import finish_if_done, wait_of_all
from paceline.coordinator.decisions.membership import lose
from paceline.coordinator.decisions.pace_changes import saw_numbers
from paceline.coordinator.decisions.results import (
    answer_claim,
    count_trainers,
    finish_task,
    keep_value,
    page_of_results,
    were_set,
)
from paceline.coordinator.decisions.rounds import meet, peers_of, step_asked
from paceline.coordinator.decisions.ticks import give_back, tick_asked
from paceline.coordinator.decisions.tracked import buffers_kept, must_return, tracked_kept
from paceline.coordinator.durable.outcomes import (
    OnceClaimed,
    PartEnded,
    PartReady,
    StageRegistered,
    StopRequested,
    TrainerJoined,
    TrainerLeft,
)
from paceline.coordinator.ledgers import Asker, Book, Loss
from paceline.coordinator.ledgers.effects import Happened
from paceline.messages.beats import Beat, Beaten
from paceline.messages.locking import CommitStep
from paceline.messages.meeting import AskPeers, DoorOpened, Meet
from paceline.messages.results import AskResults, FinishTask, KeepValue
from paceline.messages.shared import Done, Message, Refusal, RefusalKind, TrainerMessage
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
    Tick,
    TrackedKept,
    TrainerRequest,
    UnsharePart,
)
from paceline.messages.values import ClaimValues, ValuesSet
from paceline.pace.changing import why_not_among, why_not_same


def trainer_asked(book: Book, asker: Asker, message: TrainerRequest) -> None:
    """Answer a trainer, park its question, or refuse it."""
    if not isinstance(message, TrainerMessage) or is_heard(book, asker, message):
        _ANSWERS[type(message)](book, asker, message)


def is_heard(book: Book, asker: Asker, message: TrainerMessage) -> bool:
    """Whether a member asks; whoever is none, or speaks of the past, is refused here."""
    refused = refusal_of(book, asker, message)
    if refused is not None:
        book.refuse(asker.ticket, *refused)
        return False
    # What it told to wait for is over, unless this tells it anew.
    book.members.heard(message.incarnation, book.now).wait = None
    return True


def refusal_of(
    book: Book, asker: Asker, message: TrainerMessage
) -> tuple[RefusalKind, str] | None:
    """Why a trainer's question is not even looked at; None if it is."""
    state = book.durable
    if state.trainers.get(asker.role) != message.incarnation:
        text = f"{asker.role}: incarnation {message.incarnation} is over; join again"
        return "fenced", text
    if message.timeline != state.timeline and not isinstance(message, Beat | Leave):
        return "timeline", f"timeline {message.timeline} was left; now is {state.timeline}"
    return None


def _join(book: Book, asker: Asker, message: JoinTrainer) -> None:
    state, live = book.durable, book.durable.trainers.get(message.trainer)
    if message.trainer != asker.role:
        text = f"{asker.role} asked to join as {message.trainer}"
        book.refuse(asker.ticket, "invalid", text)
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


def _share(book: Book, asker: Asker, message: SharePart) -> None:
    record = book.durable.parts.get(message.spec.part)
    if record is not None:
        reason = why_not_same(record.plan.spec, message.spec)
        if reason is not None:
            book.refuse(asker.ticket, "mismatch", reason)
            return
    others = list(book.durable.trained().values())
    reason = None if record else why_not_among(others, message.spec)
    if reason is not None:
        book.refuse(asker.ticket, "mismatch", f"share: {reason}")
        return
    book.park(
        book.questions.shares, (message.incarnation, message.spec.part), asker, message
    )


def _uploaded(book: Book, asker: Asker, message: PartUploaded) -> None:
    record = book.durable.parts.get(message.part)
    if record is not None and not record.is_ready:
        if record.uploader != message.incarnation:
            text = f"part {message.part} is uploaded by incarnation {record.uploader}"
            book.refuse(asker.ticket, "stale", text)
            return
        book.commit(PartReady(message.part))
    book.reply(asker.ticket, Done())


def _unshare(book: Book, asker: Asker, message: UnsharePart) -> None:
    record = book.durable.parts[message.part]
    if not record.plan.has_ended:
        book.commit(PartEnded(message.part))
    book.reply(asker.ticket, Done())


def _begin_stage(book: Book, asker: Asker, message: BeginStage) -> None:
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
        book.refuse(asker.ticket, "mismatch", text)
        return
    book.reply(asker.ticket, Done())


def _ask_lease(book: Book, asker: Asker, message: AskLease) -> None:
    book.seen.asked_stage[asker.role] = message.stage
    if message.stage > book.seen.asked_first[0]:
        book.seen.asked_first = (message.stage, book.now)
    acked_by_token = dict(message.held)
    for record in list(book.durable.queue.held_by(message.incarnation).values()):
        lease = record.lease
        if lease.token in acked_by_token:
            book.progress.advance(lease.key, acked_by_token[lease.token])
            finish_if_done(book, book.progress, book.seen, lease.key)
    if not book.durable.queue.held_by(message.incarnation):
        book.speeds.rests(message.incarnation)
    book.park(book.questions.leases, message.incarnation, asker, message)


def _may_go_on(book: Book, asker: Asker, message: MayGoOn) -> None:
    book.clocks.tell(message.incarnation, message.clock, book.durable.queue)
    book.deadlines.pause(message.incarnation)
    book.park(book.questions.ahead, message.incarnation, asker, message)


def _tracked_kept(book: Book, asker: Asker, message: TrackedKept) -> None:
    tracked_kept(book, book.keeping, message)
    book.reply(asker.ticket, Done())


def _buffers_kept(book: Book, asker: Asker, message: BuffersKept) -> None:
    buffers_kept(book.keeping, message)
    book.reply(asker.ticket, Done())


def _hand_back(book: Book, asker: Asker, message: HandBack) -> None:
    acked_by_token = dict(zip(message.tokens, message.acked, strict=True))
    give_back(book, book.progress, book.seen, message, acked_by_token)
    book.rounds.drop(asker.role)
    book.deadlines.goes_on(message.incarnation, book.durable, book.now)
    book.reply(asker.ticket, Done())


def _fail_task(book: Book, asker: Asker, message: FailTask) -> None:
    give_back(book, book.progress, book.seen, message, {message.token: message.acked})
    book.rounds.drop(asker.role)
    book.deadlines.goes_on(message.incarnation, book.durable, book.now)
    book.reply(asker.ticket, Done())


def _finish_task(book: Book, asker: Asker, message: FinishTask) -> None:
    book.reply(asker.ticket, finish_task(book, book.progress, book.deadlines, message))


def _ask_results(book: Book, asker: Asker, message: AskResults) -> None:
    book.reply(asker.ticket, page_of_results(book.durable, message))


def _keep_value(book: Book, asker: Asker, message: KeepValue) -> None:
    book.reply(asker.ticket, keep_value(book, message))


def _beat(book: Book, asker: Asker, message: Beat) -> None:
    info = book.members.heard(message.incarnation, book.now)
    if message.evaluated > info.evaluated:
        info.evaluated = message.evaluated
        book.deadlines.has_begun(message.incarnation)
        book.deadlines.goes_on(message.incarnation, book.durable, book.now)
    is_current = message.timeline == book.durable.timeline
    if message.bounded_clock is not None and is_current:
        book.clocks.tell(message.incarnation, message.bounded_clock, book.durable.queue)
    info.clock = max(info.clock, message.clock)
    info.state = message.state or info.state
    info.wait, info.wait_s = message.wait, book.now
    state, pauses = book.durable, book.pauses()
    beaten = Beaten(timeline=state.timeline, stopped=state.stopped, pauses=pauses)
    book.reply(asker.ticket, beaten)


def _claim_once(book: Book, asker: Asker, message: ClaimOnce) -> None:
    once = book.durable.once
    if message.name not in once:
        book.commit(OnceClaimed(message.name, asker.role))
    book.reply(asker.ticket, Claimed(mine=once[message.name] == asker.role))


def _claim_values(book: Book, asker: Asker, message: ClaimValues) -> None:
    book.reply(asker.ticket, answer_claim(book, book.seen, book.servers, message))


def _values_set(book: Book, asker: Asker, message: ValuesSet) -> None:
    book.reply(asker.ticket, were_set(book, book.seen, message))


def _stop(book: Book, asker: Asker, message: Stop) -> None:
    if book.durable.stopped is None:
        book.commit(StopRequested(message.reason))
    book.reply(asker.ticket, Done())


def _log(book: Book, asker: Asker, message: Log) -> None:
    book.metrics.note(message.numbers, message.ages_s, book.now)
    saw_numbers(book.pace, message.numbers)
    fields: dict[str, object] = {
        "trainer": asker.role,
        "records": book.count_records(),
        "numbers": message.numbers,
    }
    book.effect(Happened("log", fields))
    book.reply(asker.ticket, Done())


def _computed(book: Book, asker: Asker, message: Computed) -> None:
    told = {name: getattr(message, name) for name in ("batches", "seconds", "mean_s")}
    book.effect(Happened("computed", {"trainer": asker.role, **told}))
    book.reply(asker.ticket, Done())


def _save(book: Book, asker: Asker, message: Save) -> None:
    if book.durable.broken is not None:
        text = f"the job has failed: {book.durable.broken}"
        book.reply(asker.ticket, Refusal(kind="invalid", text=text))
        return
    if message.left is not None:
        book.seen.asked_stage[asker.role] = message.left + 1
    book.park(book.questions.saves, message.incarnation, asker, message)


def _leave(book: Book, asker: Asker, message: Leave) -> None:
    holds = bool(book.durable.queue.held_by(message.incarnation))
    uploads = any(
        record.uploader == message.incarnation for record in book.durable.parts.values()
    )
    takes_along = must_return(book, book.keeping, book.questions, message.incarnation)
    sets = book.seen.setter == message.incarnation
    if (
        holds or uploads or takes_along or sets
    ):  # half done: it is fenced, as if it had died
        loss = Loss(message.incarnation, "exited", f"{asker.role} left in the middle")
        lose(book, loss)
    else:
        book.commit(TrainerLeft(asker.role, message.incarnation, message.is_done))
        book.forget_trainer(asker.role, message.incarnation)
    book.reply(asker.ticket, Done())


def _records(book: Book, asker: Asker, message: AskRecords) -> None:
    assert message.incarnation
    book.reply(asker.ticket, Records(records=book.count_records()))


def _door_opened(book: Book, asker: Asker, message: DoorOpened) -> None:
    book.members.heard(message.incarnation, book.now).address = message.address
    book.reply(asker.ticket, Done())


def _peers(book: Book, asker: Asker, message: AskPeers) -> None:
    assert message.incarnation
    book.reply(asker.ticket, peers_of(book.durable, book.members))


_ANSWERS: dict[type[Message], Callable[[Book, Asker, Any], None]] = {
    Tick: tick_asked,
    CommitStep: step_asked,
    JoinTrainer: _join,
    SharePart: _share,
    PartUploaded: _uploaded,
    UnsharePart: _unshare,
    BeginStage: _begin_stage,
    AskLease: _ask_lease,
    MayGoOn: _may_go_on,
    TrackedKept: _tracked_kept,
    BuffersKept: _buffers_kept,
    HandBack: _hand_back,
    FailTask: _fail_task,
    FinishTask: _finish_task,
    AskResults: _ask_results,
    KeepValue: _keep_value,
    Beat: _beat,
    ClaimOnce: _claim_once,
    ClaimValues: _claim_values,
    ValuesSet: _values_set,
    Stop: _stop,
    Log: _log,
    Computed: _computed,
    Save: _save,
    Leave: _leave,
    AskRecords: _records,
    DoorOpened: _door_opened,
    AskPeers: _peers,
    Meet: meet,
}
