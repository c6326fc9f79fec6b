"""The user's own objects (`Session.track`): whose state counts, and when it is asked for.

Every trainer has its own scheduler, EMA, running averages. Their state is *current* in a
trainer that has taken part in all that has been applied. It is *fresh* at the servers
while nothing has been applied since a current trainer kept it there.

* a cut is begun only while it is fresh: one current trainer is asked, and keeps it before
  its next batch; in rounds, none can close before, so that it is of the cut's very moment;
* who enters rounds loads it fresh, since contributors of a round must agree;
* when the last current trainer is lost, nobody knows it any more: all go back to the cut.

Without rounds, or with a quorum, trainers count for themselves: the state in a cut is one
trainer's, and who enters loads the one that was kept last.

Float buffers (BatchNorm's running averages) at the end of a stage: one average for all.

::

    nothing is left to do    every trainer of the stage keeps its buffers at a server, and
                             says how many records it has trained since they were last equal
    all have                 one that is current fetches them, averages them by records, and
                             keeps its state with the average in it: that is in the cut
    the stage has ended      trainers load the buffers of that state and go on

Until the stage has ended nobody has changed its own buffers, so whoever dies, coordinator
included, it is done again from the same numbers. The buffers of a trainer that is lost
before are lost with it. At other cuts the state is one current trainer's.

Pure.
"""

from collections.abc import Collection

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import StateKept
from paceline.coordinator.ledgers import (
    Book,
    Keeping,
    Page,
    Parked,
    Questions,
    Reports,
    TrainersSeen,
)
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, TrackedKept
from paceline.messages.waits import Wait, named, wait_for

_KEEPS = Wait("state", "tracked state is kept")
LONGEST_ASK_S = 30.0  # without rounds: then a cut is taken with what was kept before


def is_tracked(state: Durable) -> bool:
    """Whether the current stage moves tracked objects: an evaluation moves none."""
    spec = state.stage_spec()
    return spec is not None and spec.is_training and bool(spec.tracked)


def current(page: Page, keeping: Keeping, questions: Questions) -> list[int]:
    """Incarnations whose objects are current, those that come to a batch soonest first."""
    holds = page.durable.queue.held_by
    took_part = _took_part(page, keeping)
    live = page.durable.trainers.values()
    found = set(live).intersection(*took_part) if took_part else set()
    # Who waits for a cut does not come to its next batch before it.
    return sorted(
        found, key=lambda one: (one in questions.saves.asked, not holds(one), one)
    )


def is_current(page: Page, keeping: Keeping, incarnation: int) -> bool:
    """Whether this member is among `current`, without a look at all others."""
    took_part = _took_part(page, keeping)
    return bool(took_part) and all(incarnation in ticked for ticked in took_part)


def _is_nobody_current(page: Page, keeping: Keeping) -> bool:
    first = next(iter(_took_part(page, keeping)), ())
    live = page.durable.trainers.values()
    return not any(one in live and is_current(page, keeping, one) for one in first)


def _took_part(page: Page, keeping: Keeping) -> list[Collection[int]]:
    """Incarnations, living and dead, that took part in what each part has applied last."""
    parts = page.parts_in_step()
    if not parts:
        return [keeping.entered]
    rounds = [page.durable.parts[part].recent for part in parts]
    return [recent[-1].ticked for recent in rounds if recent]


def may_cut(page: Page, keeping: Keeping, questions: Questions) -> bool:
    """Whether a cut would hold tracked state of its own moment; if not, it is asked for."""
    if _is_settled(page, keeping):
        return not (is_tracked(page.durable) and page.durable.mid_step)
    if keeping.tracking_s is None:
        keeping.tracking_s = page.now
    waited_s = page.now - keeping.tracking_s
    if not page.parts_in_step() and waited_s >= LONGEST_ASK_S:
        return True
    _ask(page, keeping, questions)
    return False


def may_enter(page: Page, keeping: Keeping, questions: Questions, incarnation: int) -> bool:
    """Whether a trainer without a lease may get one now; if not, state is asked for."""
    if (
        not page.parts_in_step()
        or _is_settled(page, keeping)
        or is_current(page, keeping, incarnation)
    ):
        return True
    _ask(page, keeping, questions)
    return False


def to_load(page: Page, keeping: Keeping, servers: Reports, incarnation: int) -> int | None:
    """Which tracked state a trainer loads that is granted a lease now.

    Whoever evaluates loads the one that lies in the cut: all evaluate with the same.
    """
    spec = page.durable.stage_spec()
    if spec is None or not spec.tracked:
        return None
    if spec.is_training and is_current(page, keeping, incarnation):
        return None
    return page.durable.tracked or servers.last_tracked()


def state_at_end(page: Page, servers: Reports, stage: int) -> int | None:
    """Which tracked state a stage has ended with, if it is the last and that is kept.

    One that is not current loads it there: it has not seen what the last rounds came to,
    and what its script does behind the stage it does to that. So all have the same when the
    next begins, and who returns to this state then is as it was when that loop began.
    """
    state, spec = page.durable, page.durable.stages.get(stage)
    is_kept = state.is_end_kept
    if spec is None or not spec.is_training or not spec.tracked or not is_kept:
        return None
    # Of one that nobody has told since a resume it is not known whether it trained.
    later = (state.stages.get(n) for n in range(stage + 1, state.queue.stage))
    if any(one is None or one.is_training for one in later):
        return None
    return state.tracked or servers.last_tracked() or None


def tracked_kept(
    page: Page, keeping: Keeping, message: TrackedKept, *, ends_stage: bool
) -> None:
    """A trainer has kept its state at a server; as of other rounds it does not count.

    Nor behind the end of a stage, while nothing is applied: what a script does there it
    does again, on what the stage has ended with. ``ends_stage``: an open cut has that.
    """
    incarnation = message.incarnation
    committed = {part: page.durable.parts[part].round for part in page.parts_in_step()}
    stood = {part: at for part, at in message.rounds.items() if part in committed}
    # Servers have let go of what was averaged: told a second time, it must not count again.
    is_superseded = keeping.is_averaged and not message.is_average
    is_right = is_current(page, keeping, incarnation) and stood == committed
    if _is_at_end(page, keeping):
        keeping.is_fresh = True
    elif is_right and not is_superseded and not ends_stage:
        page.commit(StateKept(message.number))
        keeping.is_fresh, keeping.is_averaged = True, message.is_average
    if keeping.track_from == incarnation:
        keeping.track_from = None


def _is_at_end(page: Page, keeping: Keeping) -> bool:
    """Whether a stage has ended, its state is kept, and nothing was applied since."""
    state = page.durable
    if not state.is_end_kept or state.cut is None:
        return False
    is_same = bool(page.parts_in_step()) and state.committed_rounds() == state.cut.rounds
    return keeping.is_fresh or is_same


def must_return(
    page: Page, keeping: Keeping, questions: Questions, incarnation: int
) -> bool:
    """Whether the loss of a trainer takes the only current state with it."""
    if not is_tracked(page.durable) or keeping.is_fresh or page.durable.is_returning:
        return False
    return current(page, keeping, questions) == [incarnation]


def _is_settled(page: Page, keeping: Keeping) -> bool:
    if (
        not is_tracked(page.durable)
        or keeping.is_fresh
        or _is_nobody_current(page, keeping)
    ):
        keeping.track_from = keeping.tracking_s = None
        return True
    return False


def _ask(page: Page, keeping: Keeping, questions: Questions) -> None:
    """Let one current trainer know; one that waits, for work or a cut, is told at once."""
    candidates = current(page, keeping, questions)
    if keeping.track_from not in candidates:
        keeping.track_from = candidates[0]
    assert keeping.track_from is not None
    _tell(page, questions, keeping.track_from, Waiting(wait=_KEEPS, track=True))
    saving = questions.saves.take(keeping.track_from)
    if saving is not None:
        page.reply(saving.ticket, Waiting(wait=_KEEPS, track=True))


def is_open(parked: Parked) -> bool:
    """Whether an answer without a lease would push batches that wait for their step."""
    return isinstance(parked.message, AskLease) and parked.message.is_open


def wait_for_state(state: Durable, keeping: Keeping) -> Wait | None:
    """Who is asked for its tracked state, while others wait for it."""
    if keeping.track_from is None:
        return None
    asked = state.incarnations().get(keeping.track_from)
    if asked is None:
        return None
    return wait_for("state", f"{asked} keeps the state of its tracked objects", [asked])


AWAIT_S = 30.0  # for buffers of a trainer that is a member and does not ask for work


def may_end(page: Page, keeping: Keeping, questions: Questions, seen: TrainersSeen) -> bool:
    """Whether the cut that ends a stage would hold the average; if not, it is asked for."""
    state, spec = page.durable, page.durable.stage_spec()
    is_alone = len(state.trainers) < 2 or not current(page, keeping, questions)
    if spec is None or not spec.averaged or is_alone or keeping.is_averaged:
        return may_cut(page, keeping, questions)
    if keeping.averaging_s is None:
        keeping.averaging_s = page.now
    roles = _awaited(page.durable, questions, seen)
    missing = [inc for role, inc in roles if inc not in keeping.buffers]
    if missing and page.now - keeping.averaging_s < AWAIT_S:
        for incarnation in missing:
            wait = Wait("state", "float buffers are kept, to be averaged")
            _tell(page, questions, incarnation, Waiting(wait=wait, buffers=True))
        return False
    kept = [keeping.buffers[inc] for _, inc in roles if inc in keeping.buffers]
    shares = tuple(share for share in kept if share.records)
    able = [inc for inc in current(page, keeping, questions) if inc in keeping.buffers]
    if not shares or not able:
        return may_cut(page, keeping, questions)
    if keeping.average_by not in able:
        keeping.average_by = able[0]
    assert keeping.average_by is not None
    wait = Wait("state", "buffers are averaged")
    _tell(page, questions, keeping.average_by, Waiting(wait=wait, average=shares))
    return False


def wait_for_buffers(
    state: Durable, keeping: Keeping, questions: Questions, seen: TrainersSeen
) -> Wait | None:
    """Whose buffers are awaited, while others wait for the end of a stage."""
    if keeping.averaging_s is None or keeping.is_averaged:
        return None
    missing = [
        role for role, inc in _awaited(state, questions, seen) if inc not in keeping.buffers
    ]
    if missing:
        reason = f"the float buffers of {named(missing)} are awaited, to be averaged"
        return wait_for("state", reason, missing)
    by = state.incarnations().get(keeping.average_by or 0)
    if by is None:
        return None
    return wait_for("state", f"{by} averages the float buffers", [by])


def wait_for_kept(book: Book) -> Wait | None:
    """Who is asked to keep something at a server, while others wait for it."""
    state, keeping = book.durable, book.keeping
    buffers = wait_for_buffers(state, keeping, book.questions, book.seen)
    return buffers or wait_for_state(state, keeping)


def buffers_at_end(
    page: Page, keeping: Keeping, servers: Reports, incarnation: int, stage: int
) -> int | None:
    """Number of the state that a stage ended with, if its buffers may be loaded.

    A newcomer passes stages that were over before it came: with the buffers of now, as it
    has the values of now. Other objects are its script's until it has work.
    """
    state, stages = page.durable, page.durable.stages
    if stage not in stages or not stages[stage].averaged:
        return None
    later = (stages[n] for n in range(stage + 1, state.queue.stage) if n in stages)
    is_last = state.is_end_kept and not any(spec.is_training for spec in later)
    if not is_last and incarnation in keeping.entered:
        return None
    return state.tracked or servers.last_tracked() or None


def _awaited(
    state: Durable, questions: Questions, seen: TrainersSeen
) -> list[tuple[str, int]]:
    """Trainers whose buffers belong to the average: all but those that have gone on."""
    stage = state.queue.stage
    return [
        (role, incarnation)
        for role, incarnation in sorted(state.trainers.items())
        if seen.asked_stage.get(role, stage) <= stage
        and incarnation not in questions.saves.asked
    ]


def _tell(page: Page, questions: Questions, incarnation: int, waiting: Waiting) -> None:
    """Answer a trainer that waits for work; one that does not wait is told when it does."""
    parked = questions.leases.asked.get(incarnation)
    if parked is not None and not is_open(parked):
        questions.leases.take(incarnation)
        page.reply(parked.ticket, waiting)
