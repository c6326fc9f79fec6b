"""How trainers find each other, and meet for rounds whose values they exchange.

Atomic steps: held pushes on several servers have their effect together or not at all.

::

    asked       all servers hold the pushes: {part: number}
    journalled  from here on the step is so, whoever dies
    told        the trainer passes it on; its fence, and every cut, carry it as well

No step is committed from when a cut is begun until all servers hold its moment: a step is
in a cut on all servers or on none. Only the last numbers of each trainer are kept, until
all servers have fenced it.

When nobody can move: open rounds of several parts that wait for each other.

::

    part 0    trainer-0 has come, trainer-1 is missing
    part 1    trainer-1 has come, trainer-0 is missing      both wait, and for ever

A round in which somebody is missing who works may close yet. It never does if more are
missing than its pace does without who wait in rounds of this kind themselves: trainers
have stepped their parts in different orders. It is told once all who train wait so, since
as long as one of them moves it may leave, and change everything.

A trainer that computes on while its push is under way does not wait there, and of fragments
the script does not choose the order: such parts are not looked at, nor those that close
without whoever is missing.

Pure.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import StepCommitted
from paceline.coordinator.ledgers import (
    Asker,
    Book,
    Cuts,
    Keeping,
    Members,
    Page,
    Questions,
    Rounds,
)
from paceline.messages.locking import CommitStep
from paceline.messages.meeting import Exchange, LivingTrainer, Meet, MeetAgain, Peers
from paceline.messages.shared import Done, PartSpec, Refusal, RefusalKind
from paceline.pace.policy import (
    backups_of,
    carries_over,
    is_in_step,
    takes_turns,
    updates_in_rounds,
)

_VOID = "a trainer came to the round, or left it, after its values were exchanged"


def peers_of(state: Durable, members: Members) -> Peers:
    """All living trainers, and where their doors are as far as they have told."""
    peers = {}
    for trainer, incarnation in sorted(state.trainers.items()):
        info = members.info(incarnation)
        peers[trainer] = LivingTrainer(incarnation, "" if info is None else info.address)
    return Peers(generation=state.generation, peers=peers)


def meet(book: Book, asker: Asker, message: Meet) -> Refusal | None:
    """A trainer has come to a round whose values are exchanged; it waits for the others."""
    reason = _why_not_meet(book.durable, message)
    if reason is not None:
        return book.refusal(*reason)
    book.members.heard(message.incarnation, book.now).address = message.address
    book.deadlines.pause(message.incarnation)
    book.rounds.meets.setdefault(message.part, {})[asker.role] = message
    book.park(book.questions.meets, (message.incarnation, message.part), asker, message)
    return None


def _why_not_meet(state: Durable, message: Meet) -> tuple[RefusalKind, str] | None:
    record = state.parts.get(message.part)
    if record is None:
        return "invalid", f"part {message.part} is not shared"
    pace = record.plan.spec.pace
    if not updates_in_rounds(pace) or carries_over(pace) or backups_of(pace):
        return "mismatch", (
            f"part {message.part} has pace {pace}: values are exchanged in rounds of all "
            f"who train; share it with pace sync"
        )
    if message.round != record.round + 1:
        return "stale", (
            f"round {message.round} of part {message.part} is closed; the last committed "
            f"one is {record.round}"
        )
    return None


def look_at_meetings(page: Page, rounds: Rounds, questions: Questions) -> None:
    """Tell those who wait whom they exchange values with, or that they must meet again."""
    named = rounds.exchanges()
    for part in sorted({*rounds.parts_met_for(), *named}):
        _look_at(page, rounds, questions, part, named.get(part, {}))


def _look_at(
    page: Page, rounds: Rounds, questions: Questions, part: int, ticked: dict[str, int]
) -> None:
    state = page.durable
    if rounds.is_exchanged(part, state):
        return  # the round closes as soon as it may
    found = rounds.decide_exchange(part, state)
    apart = sorted(rounds.without_exchange(part) & state.queue.holders())
    if found is None and apart and rounds.parts_met_for():
        found = f"{apart[0]} has ended its batch without the call of the others"
    if isinstance(found, str):  # a mistake of the script's
        _refuse_all(page, questions, part, found)
        return
    name = 0 if found is None else found.name
    for trainer, ticked_name in ticked.items():
        is_known = trainer in rounds.meets.get(part, {})
        if ticked_name and (not is_known or (name and ticked_name != name)):
            _tell_again(page, rounds, questions, part, trainer)
    if isinstance(found, Exchange):
        for member in found.members:
            parked = questions.meets.take((member.incarnation, part))
            if parked is not None:
                page.reply(parked.ticket, found)


def _tell_again(
    page: Page, rounds: Rounds, questions: Questions, part: int, trainer: str
) -> None:
    incarnation = page.durable.trainers.get(trainer)
    rounds.void(part, trainer)
    if incarnation is not None:
        parked = questions.ticks.take((incarnation, part))
        if parked is not None:
            page.reply(parked.ticket, MeetAgain(reason=_VOID))


def _refuse_all(page: Page, questions: Questions, part: int, text: str) -> None:
    for key, parked in list(questions.meets.asked.items()):
        if key[1] == part:
            questions.meets.take(key)
            page.refuse(parked.ticket, "mismatch", text)


def step_asked(book: Book, asker: Asker, message: CommitStep) -> Done | None:
    """All servers hold a step: commit it, now or when the open cut has its moment."""
    if _is_committed(book.durable, message):
        return Done()
    book.park(book.questions.steps, message.incarnation, asker, message)
    return None


def look_at_steps(
    page: Page, questions: Questions, cutting: Cuts, keeping: Keeping
) -> None:
    """Commit all steps that wait, unless a cut is being pinned."""
    if cutting.open is not None and not cutting.open.is_pinned():
        return
    for parked in questions.steps.take_all():
        message = parked.message
        assert isinstance(message, CommitStep)
        if not _is_committed(page.durable, message):
            page.commit(StepCommitted(message.incarnation, message.pushes))
            keeping.applied()
        page.reply(parked.ticket, Done())


def _is_committed(state: Durable, message: CommitStep) -> bool:
    known = state.steps.get(message.incarnation, {})
    return all(number <= known.get(part, 0) for part, number in message.pushes.items())


class OpenRound(NamedTuple):
    """Who waits in the open round of a part, and how many others it does without."""

    here: Collection[str]
    spare: int = 0


class Waiter(NamedTuple):
    """A trainer, the part in whose open round it waits, and one where it is missing."""

    trainer: str
    waits_in: int
    lacks: int


def decide_standstill(
    rounds: Mapping[int, OpenRound], trainers: Collection[str]
) -> list[Waiter]:
    """Trainers that wait for each other in a circle, if nobody can move; else none.

    ``rounds`` are open ones to which somebody has come, by part, and wait for ``trainers``.
    """
    stuck = dict(rounds)
    while True:
        waiting = {trainer for one in stuck.values() for trainer in one.here}
        still = {
            part: one
            for part, one in stuck.items()
            if len((set(trainers) - set(one.here)) & waiting) > one.spare
        }
        if len(still) == len(stuck):
            break
        stuck = still
    if not stuck or not waiting.issuperset(trainers):
        return []
    return _circle(stuck, set(trainers))


def _circle(stuck: Mapping[int, OpenRound], trainers: set[str]) -> list[Waiter]:
    """From a part to one who is missing there, to the part where that one waits, and on."""
    path: list[Waiter] = []
    part = min(stuck)
    while part not in [waiter.lacks for waiter in path]:
        missing = min(trainers - set(stuck[part].here))
        waits_in = min(p for p, one in stuck.items() if missing in one.here)
        path.append(Waiter(missing, waits_in, part))
        part = waits_in
    return path[[waiter.lacks for waiter in path].index(part) :]


def look_at_standstill(page: Page, rounds: Rounds, questions: Questions) -> None:
    """Tell all who wait in open rounds that none of these can close, if it is so."""
    state = page.durable
    parts = {*rounds.ticked_parts(), *rounds.parts_met_for()}
    if len(parts) < 2:
        return
    trainers, known = state.queue.holders(), {}
    for part in parts & state.parts.keys():
        pace = state.parts[part].plan.spec.pace
        here = rounds.waiting(part)
        if here and is_in_step(pace) and not takes_turns(pace):
            known[part] = OpenRound(here, backups_of(pace))
    circle = decide_standstill(known, trainers)
    if not circle:
        return
    specs = {part: state.parts[part].plan.spec for part in known}
    text = describe_standstill(circle, specs)
    for waiting in (questions.ticks, questions.meets):
        for key, parked in list(waiting.asked.items()):
            waiting.take(key)
            page.refuse(parked.ticket, "mismatch", text)


def describe_standstill(circle: list[Waiter], specs: Mapping[int, PartSpec]) -> str:
    """Who steps what first, and what to do about it."""
    named = {part: f"part {part} ({_example(spec)!r})" for part, spec in specs.items()}
    orders = [
        f"{one.trainer} steps {named[one.waits_in]} before {named[one.lacks]}"
        for one in sorted(circle)
    ]
    return (
        f"{', '.join(orders)}: they wait for each other, and no round can close; in every "
        "batch step what was shared in one order on all trainers, and all of it (what is "
        "accumulated leaves by itself where a trainer's tasks end, while others step)"
    )


def _example(spec: PartSpec) -> str:
    return spec.parameters[0].names[0] if spec.parameters else spec.tables[0].name
