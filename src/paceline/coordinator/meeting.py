"""How trainers find each other, and meet for rounds whose values they exchange.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.coordinator.meetings import Differing
from paceline.coordinator.rounds import participants
from paceline.messages import Exchange, Meet, MeetAgain, Peer, Peers, Refusal
from paceline.pace.policy import backups_of, carries_over, updates_in_rounds

_VOID = "a trainer came to the round, or left it, after its values were exchanged"


def peers_of(book: Book) -> Peers:
    """All living trainers, and where their doors are as far as they have told."""
    peers = {}
    for trainer, incarnation in sorted(book.durable.trainers.items()):
        info = book.members.info(incarnation)
        peers[trainer] = Peer(incarnation, "" if info is None else info.address)
    return Peers(generation=book.durable.generation, peers=peers)


def meet(book: Book, trainer: str, ticket: int, message: Meet) -> None:
    """A trainer has come to a round whose values are exchanged; it waits for the others."""
    reason = _why_not_meet(book, message)
    if reason is not None:
        kind, text = reason
        refusal = Refusal(kind=kind, text=text, timeline=book.durable.timeline)  # type: ignore[arg-type]  # kinds are spelled below
        book.reply(ticket, refusal)
        return
    book.members.heard(message.incarnation, book.now).address = message.address
    book.deadlines.pause(message.incarnation)
    book.rounds.meetings.came(trainer, message)
    book.park_meet(ticket, trainer, message)


def _why_not_meet(book: Book, message: Meet) -> tuple[str, str] | None:
    record = book.durable.parts.get(message.part)
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


def look_at_meetings(book: Book) -> None:
    """Tell those who wait whom they exchange values with, or that they must meet again."""
    rounds = book.rounds
    named = rounds.exchanges()
    for part in sorted({*rounds.meetings.parts(), *named}):
        _look_at(book, part, named.get(part, {}))


def _look_at(book: Book, part: int, ticked: dict[str, int]) -> None:
    state, rounds = book.durable, book.rounds
    if rounds.is_exchanged(part, state):
        return  # the round closes as soon as it may
    with_work = participants(state)
    found = rounds.meetings.decide_exchange(part, state.timeline, with_work)
    apart = sorted(rounds.without_exchange(part) & with_work)
    if found is None and apart and rounds.meetings.parts():
        found = Differing(f"{apart[0]} has ended its batch without the call of the others")
    if isinstance(found, Differing):
        _refuse_all(book, part, found.text)
        return
    name = 0 if found is None else found.name
    for trainer, ticked_name in ticked.items():
        is_known = rounds.meetings.has(part, trainer)
        if ticked_name and (not is_known or (name and ticked_name != name)):
            _tell_again(book, part, trainer)
    if isinstance(found, Exchange):
        for member in found.members:
            parked = book.meets.take((member.incarnation, part))
            if parked is not None:
                book.reply(parked.ticket, found)


def _tell_again(book: Book, part: int, trainer: str) -> None:
    incarnation = book.durable.trainers.get(trainer)
    book.rounds.void(part, trainer)
    if incarnation is not None:
        parked = book.ticks.take((incarnation, part))
        if parked is not None:
            book.reply(parked.ticket, MeetAgain(reason=_VOID))


def _refuse_all(book: Book, part: int, text: str) -> None:
    """All who have come to the round made different calls: a mistake of the script's."""
    for key, parked in book.meets.items():
        if key[1] == part:
            book.meets.take(key)
            refusal = Refusal(kind="mismatch", text=text, timeline=book.durable.timeline)
            book.reply(parked.ticket, refusal)
