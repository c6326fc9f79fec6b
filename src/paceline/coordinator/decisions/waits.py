"""What each parked question waits for: whom, and why.

Pure.
"""

from collections.abc import Callable
from itertools import chain, islice
from typing import Any

from paceline.coordinator.decisions.checkpoints import cut_wait, waits_for_cut
from paceline.coordinator.decisions.leases import (
    choose_cell,
    is_mid_step,
    missing_from_ring,
    participants,
    takers,
    wait_for_fences,
    wait_of_all,
)
from paceline.coordinator.decisions.pace_changes import wait_for_pace
from paceline.coordinator.decisions.tracked import wait_for_kept
from paceline.coordinator.ledgers import Book, Parked
from paceline.ids import LAUNCHER, trainer_id
from paceline.messages.locking import CommitStep
from paceline.messages.meeting import Meet
from paceline.messages.shared import Message
from paceline.messages.trainer import AskLease, MayGoOn, Save, SharePart, Tick
from paceline.messages.waits import MOST_NAMED, Wait, listed, named, wait_for
from paceline.messages.watching import ChangePace, Interrupt, TakeCut

_CLOCKS_UNKNOWN = "the coordinator has restarted, and trainers tell it their clocks"


def wait_of(book: Book, parked: Parked) -> Wait:
    """What a parked question waits for."""
    return _WAITS[type(parked.message)](book, parked.role, parked.message)


def _wait_for_values(book: Book, _: str, share: SharePart) -> Wait:
    nobody = Wait("values", f"part {share.spec.part} has no values yet")
    return wait_of_all(book) or nobody


def _wait_to_meet(book: Book, _: str, meet: Meet) -> Wait:
    missing = book.rounds.missing_to_meet(meet.part, book.durable)
    reason = f"round {meet.round} waits for {named(missing)}, to exchange values"
    return wait_for("exchange", reason, missing)


def _wait_of_tick(book: Book, _: str, tick: Tick) -> Wait:
    cut = book.cutting.open
    if cut is not None and not cut.is_pinned():
        return wait_for("cut", f"cut {cut.cut} is being taken", takers(book.cutting))
    missing = book.rounds.missing(tick.part, book.durable)
    gathers = book.rounds.reason_to_wait(tick.part, book.durable, book.now)
    if gathers is not None:
        reason = f"the round after {book.durable.parts[tick.part].round}: {gathers}"
    else:
        reason = f"round {tick.round} waits for {named(missing)}"
    # With nobody missing, it closes as soon as servers have applied those before.
    return wait_for("round", reason, missing or book.durable.servers)


def _wait_to_go_on(book: Book, _: str, ask: MayGoOn) -> Wait:
    slowest = book.clocks.slowest(book.durable.queue)
    if slowest is None:
        return Wait("clock", _CLOCKS_UNKNOWN)
    names = {incarnation: name for name, incarnation in book.durable.trainers.items()}
    last = [names.get(i, str(i)) for i in book.clocks.slowest_of(slowest)]
    clock = ask.clock.steps
    allowed = f"the pace allows {ask.staleness}"
    ahead = f"at clock {clock}, {clock - slowest} ahead of {named(last)}"
    return wait_for("clock", f"{ahead}; {allowed}", last)


def _wait_for_lease(book: Book, trainer: str, ask: AskLease) -> Wait:
    if book.cutting.open or waits_for_cut(book, book.cutting, book.seen):
        return cut_wait(book)
    return wait_of_all(book) or _wait_for_task(book, trainer, ask.stage)


def _wait_for_task(book: Book, trainer: str, stage: int) -> Wait:
    state, queue = book.durable, book.durable.queue
    if not state.has_started:
        return _wait_for_members(book)
    if (late := missing_from_ring(book, book.seen)) is not None:
        reason = f"the rotation begins as soon as {named(late)} come, or in a second"
        return wait_for("members", reason, late)
    if state.settling:
        return wait_for_fences(book, book.servers)
    # A thousand may ask: nobody looks at all holders for each.
    holders, count = sorted(queue.first_holders(MOST_NAMED)), queue.num_holders()
    others = (tuple(holders), count - len(holders))
    if stage > queue.stage:
        if not count:
            asked = book.seen.asked_stage
            behind = [t for t in state.trainers if asked.get(t, -1) < stage]
            holders, count = sorted(behind)[:MOST_NAMED], len(behind)
        reason = f"what comes before is not over, and with {listed(holders, count)}"
        return Wait("stage", reason, tuple(holders), count - len(holders))
    if not book.knows_clocks():
        return Wait("clock", _CLOCKS_UNKNOWN, *others)
    if is_mid_step(book.durable):
        return Wait("round", "others are between two parts of a step", *others)
    kept = wait_for_kept(book)
    if kept is not None:
        return kept
    if book.is_rotating() and trainer in participants(book.durable, book.seen):
        choice = choose_cell(book.durable, book.seen, trainer)
        return wait_for("block", choice.reason, choice.whom)
    reason = f"the epoch's last tasks are with {listed(holders, count)}"
    return Wait("lease", reason, *others)


def _wait_for_members(book: Book) -> Wait:
    """The job's first trainers: those that are not here, and members that do not ask."""
    asking = book.questions.leases.who_waits(book.now)
    here, wanted, members = len(asking), book.first_trainers(), book.durable.trainers
    late = (name for name, one in members.items() if one not in asking)
    expected = (trainer_id(n) for n in range(book.config.max_trainers))
    absent = (trainer for trainer in expected if trainer not in members)
    whom = tuple(islice(chain(late, absent), min(MOST_NAMED, max(0, wanted - here))))
    reason = f"{here} of {wanted} trainers have asked for work"
    return Wait("members", reason, whom, max(0, wanted - here - len(whom)))


_WAITS: dict[type[Message], Callable[[Book, str, Any], Wait]] = {
    SharePart: _wait_for_values,
    AskLease: _wait_for_lease,
    MayGoOn: _wait_to_go_on,
    Tick: _wait_of_tick,
    Meet: _wait_to_meet,
    CommitStep: lambda book, _, __: cut_wait(book),
    Save: lambda book, _, __: cut_wait(book),
    ChangePace: lambda book, _, __: wait_for_pace(book),
    TakeCut: lambda book, _, __: cut_wait(book),
    Interrupt: lambda _, __, ___: Wait("launcher", "it is to end the run", (LAUNCHER,)),
}
