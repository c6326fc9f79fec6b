"""Who is listened to: members, who speak of the present.

Pure.
"""

import msgspec

from paceline.coordinator.book import Book
from paceline.messages import Beat, Leave, Refusal, TrainerMessage


class Asker(msgspec.Struct, frozen=True):
    """Who asks, and the ticket under which the answer goes back."""

    role: str
    ticket: int


def is_heard(book: Book, asker: Asker, message: TrainerMessage) -> bool:
    """Whether a member asks; whoever is none, or speaks of the past, is refused here."""
    if refusal := refusal_of(book, asker, message):
        book.reply(asker.ticket, refusal)
    else:
        # What it told to wait for is over, unless this tells it anew.
        book.members.heard(message.incarnation, book.now).wait = None
    return refusal is None


def refusal_of(book: Book, asker: Asker, message: TrainerMessage) -> Refusal | None:
    """Why a trainer's question is not even looked at; None if it is."""
    state = book.durable
    if state.trainers.get(asker.role) != message.incarnation:
        text = f"{asker.role}: incarnation {message.incarnation} is over; join again"
        return refuse(book, "fenced", text)
    if message.timeline != state.timeline and not isinstance(message, Beat | Leave):
        text = f"timeline {message.timeline} was left; now is {state.timeline}"
        return refuse(book, "timeline", text)
    return None


def refuse(book: Book, kind: str, text: str) -> Refusal:
    """A refusal with the current timeline."""
    return Refusal(kind=kind, text=text, timeline=book.durable.timeline)  # type: ignore[arg-type]  # kinds are spelled at the calls
