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

from paceline.coordinator.decisions.tracked import current, is_open, may_cut
from paceline.coordinator.ledgers import Book
from paceline.messages.shared import AverageShare, Waiting
from paceline.messages.trainer import BuffersKept
from paceline.messages.waits import Wait, named, wait_for

AWAIT_S = 30.0  # for buffers of a trainer that is a member and does not ask for work


def may_end(book: Book) -> bool:
    """Whether the cut that ends a stage would hold the average; if not, it is asked for."""
    state, spec = book.durable, book.durable.stage_spec()
    is_alone = len(state.trainers) < 2 or not current(book)
    if spec is None or not spec.averaged or is_alone or book.is_averaged:
        return may_cut(book)
    if book.averaging_s is None:
        book.averaging_s = book.now
    roles = _awaited(book)
    missing = [inc for role, inc in roles if inc not in book.buffers]
    if missing and book.now - book.averaging_s < AWAIT_S:
        for incarnation in missing:
            wait = Wait("state", "float buffers are kept, to be averaged")
            _tell(book, incarnation, Waiting(wait=wait, buffers=True))
        return False
    kept = [book.buffers[inc] for _, inc in roles if inc in book.buffers]
    shares = tuple(share for share in kept if share.records)
    able = [inc for inc in current(book) if inc in book.buffers]
    if not shares or not able:
        return may_cut(book)
    if book.average_by not in able:
        book.average_by = able[0]
    assert book.average_by is not None
    wait = Wait("state", "buffers are averaged")
    _tell(book, book.average_by, Waiting(wait=wait, average=shares))
    return False


def buffers_kept(book: Book, message: BuffersKept) -> None:
    """A trainer has kept its averaged objects at a server."""
    book.buffers[message.incarnation] = AverageShare(message.number, message.records)


def wait_for_buffers(book: Book) -> Wait | None:
    """Whose buffers are awaited, while others wait for the end of a stage."""
    if book.averaging_s is None or book.is_averaged:
        return None
    missing = [role for role, inc in _awaited(book) if inc not in book.buffers]
    if missing:
        reason = f"the float buffers of {named(missing)} are awaited, to be averaged"
        return wait_for("state", reason, missing)
    by = book.durable.incarnations().get(book.average_by or 0)
    if by is None:
        return None
    return wait_for("state", f"{by} averages the float buffers", [by])


def buffers_at_end(book: Book, stage: int) -> int | None:
    """Number of the state that a stage ended with, if its buffers may be loaded."""
    state, stages = book.durable, book.durable.stages
    if stage not in stages or not stages[stage].averaged or not state.is_end_kept:
        return None
    later = (stages[n] for n in range(stage + 1, state.queue.stage) if n in stages)
    if any(spec.is_training for spec in later):
        return None
    in_cut = max((report.tracked for report in book.reports.values()), default=0)
    return state.tracked or in_cut or None


def _awaited(book: Book) -> list[tuple[str, int]]:
    """Trainers whose buffers belong to the average: all but those that have gone on."""
    stage = book.durable.queue.stage
    return [
        (role, incarnation)
        for role, incarnation in sorted(book.durable.trainers.items())
        if book.asked_stage.get(role, stage) <= stage and incarnation not in book.saves
    ]


def _tell(book: Book, incarnation: int, waiting: Waiting) -> None:
    """Answer a trainer that waits for work; one that does not wait is told when it does."""
    parked = book.leases.get(incarnation)
    if parked is not None and not is_open(parked):
        book.leases.take(incarnation)
        book.reply(parked.ticket, waiting)
