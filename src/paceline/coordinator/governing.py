"""Parts at the pace `auto`: what the coordinator sees of the job, and lets be done.

It knows by itself who waits for whom: a tick that waits for its round, a question that
waits for the slowest. What the script logs, trainers tell it. All parts at `auto` take
their steps together, by the options of the first.

Not durable: a restarted coordinator begins to look anew.

Pure.
"""

from collections.abc import Mapping

from paceline.config import Auto, Pace
from paceline.coordinator.book import PARK_S, Book, PaceWish
from paceline.coordinator.parking import Parked
from paceline.messages import MayGoOn, PartSpec, Tick
from paceline.pace.auto import Governor
from paceline.pace.changing import why_not_change


def saw_wait(book: Book, parked: Parked) -> None:
    """A question is answered now that has waited since it was parked."""
    if book.governor is not None and isinstance(parked.message, Tick | MayGoOn):
        book.governor.waited(book.now - (parked.until_s - PARK_S))


def saw_numbers(book: Book, numbers: Mapping[str, float | None]) -> None:
    """A script has logged numbers."""
    governor = book.governor
    if governor is not None and governor.auto.watch in numbers:
        governor.logged(numbers[governor.auto.watch])


def why_no_pace(book: Book) -> str | None:
    """Why no part can have another pace any more; None if one can."""
    state = book.durable
    if state.broken is not None or book.is_finishing:
        return "the job is over"
    if state.stopped is not None or book.is_saving:
        return f"the job is being stopped: {state.stopped or 'its launcher ends the run'}"
    if book.config.ranks_per_trainer > 1:
        return "trainers of several processes keep the pace that they began with"
    return None


def govern(book: Book) -> None:
    """Time has passed: let the pace change by a step, if there is reason to."""
    parts = _governed(book)
    if not parts:
        book.governor = None
        return
    auto = parts[min(parts)].auto
    assert auto is not None
    governor = book.governor
    if governor is None or governor.auto != auto:
        governor = book.governor = Governor(auto, book.now)
    holders = book.durable.queue.num_holders() if book.is_training() else 0
    governor.passed(book.now, holders)
    if book.wish is not None or why_no_pace(book) is not None or not holders:
        return
    change = governor.decide(book.now, parts[min(parts)].pace)
    if change is None:
        return
    paces = dict.fromkeys(parts, change.pace)
    if _may_have(book, paces):
        reason = f"auto: {change.reason}"
        book.wish = PaceWish(paces, reason, is_auto=True, since_s=book.now)


def _governed(book: Book) -> dict[int, PartSpec]:
    specs = book.durable.trained()
    return {part: spec for part, spec in specs.items() if isinstance(spec.auto, Auto)}


def _may_have(book: Book, paces: dict[int, Pace]) -> bool:
    """Whether the other parts let these have such paces."""
    return why_not_change(book.durable.trained().values(), paces) is None
