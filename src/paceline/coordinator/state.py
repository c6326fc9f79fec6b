"""The coordinator's decisions behind one door: `apply(event, now) -> outcomes, effects`.

A service feeds it messages, closed connections and the passing of time; it returns what
the journal must keep and what the service then carries out, in this order.

Pure.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import msgspec

from paceline.config import JobConfig
from paceline.coordinator.decisions import (
    Stored,
    begin_run,
    break_taken_over,
    commit_cut,
    cut_asked,
    end_waits,
    govern,
    interrupt_asked,
    job_status,
    launcher_reported,
    look_again,
    look_for_losses,
    pace_asked,
    return_further,
    scale_asked,
    server_reported,
    status_asked,
    trainer_asked,
)
from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.coordinator.ledgers import Asker, Book
from paceline.coordinator.ledgers.effects import Effect
from paceline.messages.server import ServerReport
from paceline.messages.shared import Message
from paceline.messages.watching import (
    AskStatus,
    ChangePace,
    Interrupt,
    JobStatus,
    LauncherReport,
    Scale,
    TakeCut,
)


class Asked(msgspec.Struct, frozen=True):
    """Event: a message came from a role; its answer goes back under ``ticket``."""

    role: str
    ticket: int
    message: Message


class Disconnected(NamedTuple):
    """Event: the last connection of an incarnation closed."""

    incarnation: int


class TimePassed(NamedTuple):
    """Event: look at deadlines; sent several times a second."""


class ManifestWritten(NamedTuple):
    """Event: a `WriteManifest` effect is carried out, or failed with an error.

    ``is_taken_over``: another run of the job keeps its cuts there now, for good.
    """

    folder: str
    error: str | None
    is_taken_over: bool = False


class CutSought(NamedTuple):
    """Event: a `SeekCut` effect is carried out; with no cut, ``error`` may say why."""

    folder: str
    found: Stored
    error: str | None = None


class RunOpened(NamedTuple):
    """Event, before any other: a coordinator has started, and this is in storage."""

    stored: Stored


Event = Asked | Disconnected | TimePassed | ManifestWritten | CutSought | RunOpened


class Decision(msgspec.Struct, frozen=True):
    """What the journal keeps, then what the service does."""

    outcomes: list[AnyOutcome]
    effects: list[Effect]


@final
class CoordinatorState:
    """All decisions of one coordinator."""

    def __init__(self, config: JobConfig, durable: Durable, now: float) -> None:
        self._book = Book(config, durable, now)

    @property
    def durable(self) -> Durable:
        """What a restarted coordinator would know; not to be changed."""
        return self._book.durable

    def apply(self, event: Event, now: float) -> Decision:
        """Take note of an event and decide all that follows from it."""
        if type(event) is RunOpened:
            return self._open_run(event, now)
        book = self._book
        book.now = now
        _TAKEN[type(event)](book, event)
        look_again(book)
        if now >= book.first_due_s:
            end_waits(book)
        return Decision(*book.take())

    def status(self) -> JobStatus:
        """How the job stands."""
        return job_status(self._book)

    def finish(self, now: float) -> Decision:
        """The job is over: every report of a server is answered with `ShutDown`."""
        self._book.is_finishing = True
        return self.apply(TimePassed(), now)

    def _open_run(self, event: RunOpened, now: float) -> Decision:
        resumed = begin_run(self._book, event.stored)
        decision = Decision(*self._book.take())
        # Nothing that the old one remembers is of this run.
        self._book = Book(self._book.config, self._book.durable, now)
        self._book.resumed = resumed
        return decision


def _asked(book: Book, event: Asked) -> None:
    answer = _ANSWERS.get(type(event.message), trainer_asked)
    answer(book, Asker(event.role, event.ticket), event.message)


def _time_passed(book: Book, _: TimePassed) -> None:
    look_for_losses(book)
    govern(book)
    book.questions.look_at_all()


def _manifest_written(book: Book, event: ManifestWritten) -> None:
    if event.is_taken_over:
        break_taken_over(book, event.error)
    commit_cut(book, event.folder, event.error)


_TAKEN: dict[type[Event], Callable[[Book, Any], None]] = {
    Asked: _asked,
    Disconnected: lambda book, event: book.members.closed(event.incarnation, book.now),
    TimePassed: _time_passed,
    ManifestWritten: _manifest_written,
    CutSought: lambda book, event: return_further(book, *event),
}
# Trainers ask all else.
_ANSWERS: dict[type[Message], Callable[[Book, Asker, Any], None]] = {
    ServerReport: server_reported,
    LauncherReport: launcher_reported,
    Scale: scale_asked,
    ChangePace: pace_asked,
    TakeCut: cut_asked,
    Interrupt: interrupt_asked,
    AskStatus: status_asked,
}
