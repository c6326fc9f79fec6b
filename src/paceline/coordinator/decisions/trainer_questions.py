"""What trainers ask, one function per question: the answer, or None once it is parked.

Every question but `JoinTrainer` carries the asker's incarnation and timeline: a dead
incarnation is refused as ``fenced``, an old timeline as ``timeline``, before anything
else is looked at.

Pure.
"""

from collections.abc import Callable
from typing import Any

from paceline.coordinator.decisions.leases import acknowledge_task, wait_of_all
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
from paceline.coordinator.decisions.tracked import must_return, tracked_kept
from paceline.coordinator.durable.outcomes import (
    OnceClaimed,
    PartEnded,
    PartReady,
    StageRegistered,
    StopRequested,
    TrainerJoined,
    TrainerLeft,
)
from paceline.coordinator.ledgers import Asker, Book, Loss, MemberInfo
from paceline.coordinator.ledgers.effects import Happened
from paceline.data.same_stage import why_not_same_stage
from paceline.messages.locking import CommitStep
from paceline.messages.meeting import AskPeers, DoorOpened, Meet
from paceline.messages.results import AskResults, FinishTask, KeepValue
from paceline.messages.shared import (
    AverageShare,
    Done,
    Message,
    Refusal,
    TrainerMessage,
)
from paceline.messages.trainer import (
    AskLease,
    AskRecords,
    Beat,
    Beaten,
    BeginStage,
    BuffersKept,
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
from paceline.messages.values import Claimed, ClaimOnce, ClaimValues, ValuesSet
from paceline.pace.changing import why_not_same
from paceline.pace.policy import why_not_beside


def trainer_asked(book: Book, asker: Asker, message: TrainerRequest) -> None:
    """Answer a trainer, park its question, or refuse it."""
    if not isinstance(message, TrainerMessage) or is_heard(book, asker, message):
        answer = _ANSWERS[type(message)](book, asker, message)
        if answer is not None:
            book.reply(asker.ticket, answer)


def is_heard(book: Book, asker: Asker, message: TrainerMessage) -> bool:
    """Whether a member asks; whoever is none, or speaks of the past, is refused here."""
    state = book.durable
    if state.trainers.get(asker.role) != message.incarnation:
        text = f"{asker.role}: incarnation {message.incarnation} is over; join again"
        book.refuse(asker.ticket, "fenced", text)
        return False
    if message.timeline != state.timeline and not isinstance(message, Beat | Leave):
        text = f"timeline {message.timeline} was left; now is {state.timeline}"
        book.refuse(asker.ticket, "timeline", text)
        return False
    # What it told to wait for is over, unless this tells it anew.
    book.members.heard(message.incarnation, book.now).wait = None
    return True


def _join(book: Book, asker: Asker, message: JoinTrainer) -> Message:
    state, live = book.durable, book.durable.trainers.get(message.trainer)
    if message.trainer != asker.role:
        return book.refusal("invalid", f"{asker.role} asked to join as {message.trainer}")
    if live is None or live != message.previous:
        if live is not None:
            if (late := _why_too_late(book.members.info(live), message)) is not None:
                return book.refusal("broken", late)
            reason = f"{message.trainer} joined again from process {message.pid}"
            lose(book, Loss(live, "replaced", reason))
        live = state.next_incarnation
        book.commit(TrainerJoined(message.trainer, live))
    info = book.members.heard(live, book.now)
    info.pid, info.host, info.state = message.pid, message.host, "joined"
    if book.servers.to_replace.get(message.trainer) != message.pid:
        book.servers.replaced(message.trainer)
    held_up = None if book.servers_ready() else wait_of_all(book)
    if held_up is None or info.wait is None:  # else it asks again, and waits on
        info.wait, info.wait_s = held_up, book.now
    return Joined(
        incarnation=live,
        timeline=state.timeline,
        generation=state.generation,
        pace=book.config.pace,
        seed=book.config.seed,
        servers=_addresses(book) if held_up is None else {},
        wait=held_up,
        beat_s=min(1.0, book.config.timeout_s / 5),
        undone=tuple(state.undone),
        returned=state.returned,
        trainers=count_trainers(book),
    )


def _why_too_late(now: MemberInfo | None, message: JoinTrainer) -> str | None:
    """Why who was a member before is none again: its successor is another process."""
    if now is None or not message.previous or not now.pid:
        return None
    if (now.pid, now.host) == (message.pid, message.host):
        return None
    return (
        f"{message.trainer} is process {now.pid} on {now.host} since; this one was lost to "
        f"the job as incarnation {message.previous}"
    )


def _share(book: Book, asker: Asker, message: SharePart) -> Refusal | None:
    record = book.durable.parts.get(message.spec.part)
    if record is not None:
        reason = why_not_same(record.plan.spec, message.spec)
    else:
        others = book.durable.trained().values()
        reason = why_not_beside([*(each.pace for each in others), message.spec.pace])
        reason = None if reason is None else f"share: {reason}"
    if reason is not None:
        return book.refusal("mismatch", reason)
    key = (message.incarnation, message.spec.part)
    book.park(book.questions.shares, key, asker, message)
    return None


def _uploaded(book: Book, _: Asker, message: PartUploaded) -> Message:
    record = book.durable.parts.get(message.part)
    if record is not None and not record.is_ready:
        if record.uploader != message.incarnation:
            text = f"part {message.part} is uploaded by incarnation {record.uploader}"
            return book.refusal("stale", text)
        book.commit(PartReady(message.part))
    return Done()


def _unshare(book: Book, _: Asker, message: UnsharePart) -> Message:
    if not book.durable.parts[message.part].plan.has_ended:
        book.commit(PartEnded(message.part))
    return Done()


def _begin_stage(book: Book, _: Asker, message: BeginStage) -> Message:
    agreed = book.durable.stages.get(message.spec.stage)
    if agreed is None:
        book.commit(StageRegistered(message.spec))
    elif (text := why_not_same_stage(agreed, message.spec)) is not None:
        return book.refusal("mismatch", text)
    elif agreed.loop != message.spec.loop:
        return ShuffledAs(loop=agreed.loop)
    return Done()


def _ask_lease(book: Book, asker: Asker, message: AskLease) -> None:
    book.seen.asked_stage[asker.role] = message.stage
    if message.stage > book.seen.asked_first[0]:
        book.seen.asked_first = (message.stage, book.now)
    acked_by_token = dict(message.held)
    held = list(book.durable.queue.held_by(message.incarnation).values())
    for record in held:
        lease, last = record.lease, acked_by_token.get(record.lease.token)
        if last is not None:
            acknowledge_task(book, book.progress, book.seen, lease.key, last)
    num_left = len(book.durable.queue.held_by(message.incarnation))
    if not num_left:
        book.speeds.rests(message.incarnation)
    elif num_left < len(held):  # what it still holds has its time from now on
        book.deadlines.goes_on(message.incarnation, book.durable.queue, book.now)
    book.park(book.questions.leases, message.incarnation, asker, message)


def _may_go_on(book: Book, asker: Asker, message: MayGoOn) -> None:
    book.clocks.tell(message.incarnation, message.clock, book.durable.queue)
    book.deadlines.pause(message.incarnation)
    book.park(book.questions.ahead, message.incarnation, asker, message)


def _tracked_kept(book: Book, _: Asker, message: TrackedKept) -> Message:
    ends_stage = book.cutting.open is not None and book.cutting.open.ends_stage
    tracked_kept(book, book.keeping, message, ends_stage=ends_stage)
    return Done()


def _buffers_kept(book: Book, _: Asker, message: BuffersKept) -> Message:
    share = AverageShare(message.number, message.records)
    book.keeping.buffers[message.incarnation] = share
    return Done()


def _hand_back(book: Book, asker: Asker, message: HandBack) -> Message:
    acked_by_token = dict(zip(message.tokens, message.acked, strict=True))
    return _give_back(book, asker, message, acked_by_token)


def _fail_task(book: Book, asker: Asker, message: FailTask) -> Message:
    return _give_back(book, asker, message, {message.token: message.acked})


def _give_back(
    book: Book, asker: Asker, message: HandBack | FailTask, acked_by_token: dict[int, int]
) -> Message:
    give_back(book, book.progress, book.seen, message, acked_by_token)
    book.rounds.drop(asker.role)
    book.deadlines.goes_on(message.incarnation, book.durable.queue, book.now)
    return Done()


def _beat(book: Book, _: Asker, message: Beat) -> Message:
    info = book.members.heard(message.incarnation, book.now)
    if message.evaluated > info.evaluated:
        info.evaluated = message.evaluated
        book.deadlines.has_begun(message.incarnation)
        book.deadlines.goes_on(message.incarnation, book.durable.queue, book.now)
    state = book.durable
    if message.bounded_clock is not None and message.timeline == state.timeline:
        book.clocks.tell(message.incarnation, message.bounded_clock, state.queue)
    info.clock = max(info.clock, message.clock)
    info.state = message.state or info.state
    if message.pid:
        info.pid, info.host = message.pid, message.host
    info.wait, info.wait_s = message.wait, book.now
    info.note_spent(message.spent)
    reached = {s: state.servers[s] for s in message.unreached if s in state.servers}
    book.unreached.note(message.incarnation, reached, book.now)
    looks = message.wait is not None and message.wait.kind == "servers"
    return Beaten(
        timeline=state.timeline,
        stopped=state.stopped,
        pauses=book.pauses(),
        servers=_addresses(book) if looks else {},
    )


def _addresses(book: Book) -> dict[str, str]:
    """Where servers are: one that has moved to another host is looked for there."""
    return {
        server: member.address
        for server, incarnation in sorted(book.durable.servers.items())
        if (member := book.members.info(incarnation)) is not None and member.address
    }


def _claim_once(book: Book, asker: Asker, message: ClaimOnce) -> Message:
    once = book.durable.once
    if message.name not in once:
        book.commit(OnceClaimed(message.name, asker.role))
    return Claimed(mine=once[message.name] == asker.role)


def _stop(book: Book, _: Asker, message: Stop) -> Message:
    if book.durable.stopped is None:
        book.commit(StopRequested(message.reason))
    return Done()


def _log(book: Book, asker: Asker, message: Log) -> Message:
    book.metrics.note(message.numbers, message.ages_s, book.now)
    saw_numbers(book.governor, message.numbers)
    fields: dict[str, object] = {
        "trainer": asker.role,
        "records": book.count_records(),
        "numbers": message.numbers,
    }
    book.effect(Happened("log", fields))
    return Done()


def _computed(book: Book, asker: Asker, message: Computed) -> Message:
    told = {name: getattr(message, name) for name in ("batches", "seconds", "mean_s")}
    book.effect(Happened("computed", {"trainer": asker.role, **told}))
    return Done()


def _save(book: Book, asker: Asker, message: Save) -> Refusal | None:
    if book.durable.broken is not None:
        text = f"the job has failed: {book.durable.broken}"
        return Refusal(kind="invalid", text=text)
    if message.left is not None:
        book.seen.asked_stage[asker.role] = message.left + 1
    book.park(book.questions.saves, message.incarnation, asker, message)
    return None


def _leave(book: Book, asker: Asker, message: Leave) -> Message:
    incarnation, state = message.incarnation, book.durable
    is_in_the_middle = (
        state.queue.does_hold(incarnation)
        or any(record.uploader == incarnation for record in state.parts.values())
        or must_return(book, book.keeping, book.questions, incarnation)
        or book.seen.setter == incarnation
    )
    if is_in_the_middle:  # it is fenced, as if it had died
        lose(book, Loss(incarnation, "exited", f"{asker.role} left in the middle"))
    else:
        book.commit(TrainerLeft(asker.role, incarnation, message.is_done))
        book.forget_trainer(asker.role, incarnation)
    return Done()


def _door_opened(book: Book, _: Asker, message: DoorOpened) -> Message:
    book.members.heard(message.incarnation, book.now).address = message.address
    return Done()


_ANSWERS: dict[type[Message], Callable[[Book, Asker, Any], Message | None]] = {
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
    FinishTask: lambda book, _, told: finish_task(book, told),
    AskResults: lambda book, _, asked: page_of_results(book.durable, asked),
    KeepValue: lambda book, _, told: keep_value(book, told),
    Beat: _beat,
    ClaimOnce: _claim_once,
    ClaimValues: lambda book, _, asked: answer_claim(book, book.seen, book.servers, asked),
    ValuesSet: lambda book, _, told: were_set(book, book.seen, told),
    Stop: _stop,
    Log: _log,
    Computed: _computed,
    Save: _save,
    Leave: _leave,
    AskRecords: lambda book, _, __: Records(
        records=book.count_records(), trainers=count_trainers(book)
    ),
    DoorOpened: _door_opened,
    AskPeers: lambda book, _, __: peers_of(book.durable, book.members),
    Meet: meet,
}
