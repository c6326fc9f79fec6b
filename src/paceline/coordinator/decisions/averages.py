"""Float buffers (BatchNorm's running averages) at the end of a stage: one average for all.

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

from paceline.coordinator.decisions.tracked import current, is_open, may_cut, wait_for_state
from paceline.coordinator.durable import Durable
from paceline.coordinator.ledgers import (
    Book,
    Keeping,
    Page,
    Questions,
    Reports,
    TrainersSeen,
)
from paceline.messages.shared import AverageShare, Waiting
from paceline.messages.trainer import BuffersKept
from paceline.messages.waits import Wait, named, wait_for

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


def buffers_kept(keeping: Keeping, message: BuffersKept) -> None:
    """A trainer has kept its averaged objects at a server."""
    keeping.buffers[message.incarnation] = AverageShare(message.number, message.records)


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


def buffers_at_end(state: Durable, servers: Reports, stage: int) -> int | None:
    """Number of the state that a stage ended with, if its buffers may be loaded."""
    stages = state.stages
    if stage not in stages or not stages[stage].averaged or not state.is_end_kept:
        return None
    later = (stages[n] for n in range(stage + 1, state.queue.stage) if n in stages)
    if any(spec.is_training for spec in later):
        return None
    in_cut = servers.last_tracked()
    return state.tracked or in_cut or None


def _awaited(
    state: Durable, questions: Questions, seen: TrainersSeen
) -> list[tuple[str, int]]:
    """Trainers whose buffers belong to the average: all but those that have gone on."""
    stage = state.queue.stage
    return [
        (role, incarnation)
        for role, incarnation in sorted(state.trainers.items())
        if seen.asked_stage.get(role, stage) <= stage and incarnation not in questions.saves
    ]


def _tell(page: Page, questions: Questions, incarnation: int, waiting: Waiting) -> None:
    """Answer a trainer that waits for work; one that does not wait is told when it does."""
    parked = questions.leases.get(incarnation)
    if parked is not None and not is_open(parked):
        questions.leases.take(incarnation)
        page.reply(parked.ticket, waiting)
