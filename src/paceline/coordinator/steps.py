"""Atomic steps: held pushes on several servers have their effect together or not at all.

::

    asked       all servers hold the pushes: {part: number}
    journalled  from here on the step is so, whoever dies
    told        the trainer passes it on; its fence, and every cut, carry it as well

No step is committed from when a cut is begun until all servers hold its moment: a step is
in a cut on all servers or on none. Only the last numbers of each trainer are kept, until
all servers have fenced it.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.coordinator.outcomes import StepCommitted
from paceline.messages import CommitStep, Done


def step_asked(book: Book, ticket: int, role: str, message: CommitStep) -> None:
    """All servers hold a step: commit it, now or when the open cut has its moment."""
    if _is_committed(book, message):
        book.reply(ticket, Done())
    else:
        book.park_step(ticket, role, message)


def look_at_steps(book: Book) -> None:
    """Commit all steps that wait, unless a cut is being pinned."""
    if not book.steps or (book.open_cut is not None and not book.open_cut.is_pinned()):
        return
    for parked in book.steps.take_all():
        message = parked.message
        assert isinstance(message, CommitStep)
        if not _is_committed(book, message):
            book.commit(StepCommitted(message.incarnation, message.pushes))
            book.applied()
        book.reply(parked.ticket, Done())


def _is_committed(book: Book, message: CommitStep) -> bool:
    known = book.durable.steps.get(message.incarnation, {})
    return all(number <= known.get(part, 0) for part, number in message.pushes.items())
