"""Who may replace what the servers have by values that a script has changed.

::

    changed, and one trainer is here   its word is enough
    changed, and there are several     nobody's is, until all call `Session.set_values`
    n-th call of the script            the first that comes sets them for all; who comes
                                       later, or again, takes what the servers have

A loop, or a call, that the job has passed is not done again: a trainer that is restarted
begins at the top of its script, and what it would set was trained since. Calls are counted
in the queue, so that a cut that has the values has the count.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.coordinator.outcomes import ValuesTaken
from paceline.coordinator.stops import is_touched
from paceline.messages import ClaimValues, Done, Message, ValuesClaimed, ValuesSet, Waiting


def answer_claim(book: Book, message: ClaimValues) -> Message:
    """Whether the asker sets the values, and the reason it waits for if it must."""
    state, asker = book.durable, message.incarnation
    if book.setter not in state.trainers.values():
        book.setter = 0
    trainers = count_trainers(book)
    if not message.call and trainers > 1:
        return ValuesClaimed(verdict="several", trainers=trainers)
    is_done = _is_done(book, message)
    if is_done and book.setter in {0, asker}:
        book.setter = 0
        return ValuesClaimed(verdict="done", trainers=trainers)
    if (reason := _why_wait(book, asker)) is not None:
        return Waiting(reason=reason)
    book.setter = asker
    return ValuesClaimed(verdict="yours", trainers=trainers)


def were_set(book: Book, message: ValuesSet) -> Message:
    """All servers have the values; without a call, it is over with that."""
    if message.call > book.durable.queue.values_set:
        book.commit(ValuesTaken(message.call))
    if not message.call and book.setter == message.incarnation:
        book.setter = 0
    return Done()


def count_trainers(book: Book) -> int:
    """Trainers that are here, or that the job's first lease waits for."""
    live = len(book.durable.trainers)
    return live if book.durable.has_started else max(live, book.first_trainers())


def _is_done(book: Book, message: ClaimValues) -> bool:
    state = book.durable
    if message.call:
        return message.call <= state.queue.values_set
    if message.stage is None:
        return False
    is_passed = message.stage < state.queue.stage
    return is_passed or (message.stage == state.queue.stage and is_touched(state))


def _why_wait(book: Book, asker: int) -> str | None:
    state = book.durable
    if book.setter not in {0, asker}:
        names = {incarnation: name for name, incarnation in state.trainers.items()}
        return f"{names[book.setter]} sets the values of all"
    if state.settling:
        return "servers fence a lost trainer"
    return None
