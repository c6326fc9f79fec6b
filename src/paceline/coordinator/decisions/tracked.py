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

Pure.
"""

from collections.abc import Collection

from paceline.coordinator.durable.outcomes import StateKept
from paceline.coordinator.ledgers import Book, Parked
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, TrackedKept
from paceline.messages.waits import Wait, wait_for

_KEEPS = Wait("state", "tracked state is kept")
LONGEST_ASK_S = 30.0  # without rounds: then a cut is taken with what was kept before


def is_tracked(book: Book) -> bool:
    """Whether the current stage moves tracked objects: an evaluation moves none."""
    spec = book.durable.stage_spec()
    return spec is not None and spec.is_training and bool(spec.tracked)


def current(book: Book) -> list[int]:
    """Incarnations whose objects are current, those that come to a batch soonest first."""
    holds = book.durable.queue.held_by
    took_part = _took_part(book)
    live = book.durable.trainers.values()
    found = set(live).intersection(*took_part) if took_part else set()
    # Who waits for a cut does not come to its next batch before it.
    return sorted(found, key=lambda one: (one in book.saves, not holds(one), one))


def is_current(book: Book, incarnation: int) -> bool:
    """Whether this member is among `current`, without a look at all others."""
    took_part = _took_part(book)
    return bool(took_part) and all(incarnation in ticked for ticked in took_part)


def _is_nobody_current(book: Book) -> bool:
    first = next(iter(_took_part(book)), ())
    live = book.durable.trainers.values()
    return not any(one in live and is_current(book, one) for one in first)


def _took_part(book: Book) -> list[Collection[int]]:
    """Incarnations, living and dead, that took part in what each part has applied last."""
    parts = book.parts_in_step()
    if not parts:
        return [book.entered]
    rounds = [book.durable.parts[part].recent for part in parts]
    return [recent[-1].ticked for recent in rounds if recent]


def may_cut(book: Book) -> bool:
    """Whether a cut would hold tracked state of its own moment; if not, it is asked for."""
    if _is_settled(book):
        return not (is_tracked(book) and book.durable.mid_step)
    if book.tracking_s is None:
        book.tracking_s = book.now
    waited_s = book.now - book.tracking_s
    if not book.parts_in_step() and waited_s >= LONGEST_ASK_S:
        return True
    _ask(book)
    return False


def may_enter(book: Book, incarnation: int) -> bool:
    """Whether a trainer without a lease may get one now; if not, state is asked for."""
    if not book.parts_in_step() or _is_settled(book) or is_current(book, incarnation):
        return True
    _ask(book)
    return False


def to_load(book: Book, incarnation: int) -> int | None:
    """Which tracked state a trainer loads that is granted a lease now.

    Whoever evaluates loads the one that lies in the cut: all evaluate with the same.
    """
    spec = book.durable.stage_spec()
    if spec is None or not spec.tracked:
        return None
    if spec.is_training and is_current(book, incarnation):
        return None
    in_cut = max((report.tracked for report in book.reports.values()), default=0)
    return book.durable.tracked or in_cut


def state_at_end(book: Book, incarnation: int, stage: int) -> int | None:
    """Which tracked state a trainer loads that comes to the end of a stage.

    One without a batch in the last rounds has not seen what they came to.
    """
    state, spec = book.durable, book.durable.stages.get(stage)
    if spec is None or not spec.is_training or not spec.tracked or not state.is_end_kept:
        return None
    if not book.parts_in_step() or is_current(book, incarnation):
        return None
    later = (state.stages[n] for n in range(stage + 1, state.queue.stage))
    if any(one.is_training for one in later):
        return None
    in_cut = max((report.tracked for report in book.reports.values()), default=0)
    return state.tracked or in_cut or None


def tracked_kept(book: Book, message: TrackedKept) -> None:
    """A trainer has kept its state at a server; as of other rounds it does not count."""
    incarnation = message.incarnation
    committed = {part: book.durable.parts[part].round for part in book.parts_in_step()}
    stood = {part: at for part, at in message.rounds.items() if part in committed}
    # Servers have let go of what was averaged: told a second time, it must not count again.
    is_superseded = book.is_averaged and not message.is_average
    if is_current(book, incarnation) and stood == committed and not is_superseded:
        book.commit(StateKept(message.number))
        book.is_fresh, book.is_averaged = True, message.is_average
    if book.track_from == incarnation:
        book.track_from = None


def must_return(book: Book, incarnation: int) -> bool:
    """Whether the loss of a trainer takes the only current state with it."""
    if not is_tracked(book) or book.is_fresh or book.durable.is_returning:
        return False
    return current(book) == [incarnation]


def _is_settled(book: Book) -> bool:
    if not is_tracked(book) or book.is_fresh or _is_nobody_current(book):
        book.track_from = book.tracking_s = None
        return True
    return False


def _ask(book: Book) -> None:
    """Let one current trainer know; one that waits, for work or a cut, is told at once."""
    candidates = current(book)
    if book.track_from not in candidates:
        book.track_from = candidates[0]
    assert book.track_from is not None
    parked = book.leases.get(book.track_from)
    if parked is not None and not is_open(parked):
        book.leases.take(book.track_from)
        book.reply(parked.ticket, Waiting(wait=_KEEPS, track=True))
    saving = book.saves.take(book.track_from)
    if saving is not None:
        book.reply(saving.ticket, Waiting(wait=_KEEPS, track=True))


def is_open(parked: Parked) -> bool:
    """Whether an answer without a lease would push batches that wait for their step."""
    return isinstance(parked.message, AskLease) and parked.message.is_open


def wait_for_state(book: Book) -> Wait | None:
    """Who is asked for its tracked state, while others wait for it."""
    if book.track_from is None:
        return None
    asked = book.durable.incarnations().get(book.track_from)
    if asked is None:
        return None
    return wait_for("state", f"{asked} keeps the state of its tracked objects", [asked])
