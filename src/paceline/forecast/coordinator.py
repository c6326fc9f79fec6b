"""The coordinator of a forecast: `CoordinatorState` behind a line of requests.

It never dies. A cut is whole as soon as all shares are.

Pure: the agenda's time is the only one.
"""

import itertools
from collections.abc import Callable
from typing import Protocol, final

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.coordinator.ledgers.effects import SendReply, WriteManifest
from paceline.coordinator.state import (
    Asked,
    CoordinatorState,
    Event,
    ManifestWritten,
    TimePassed,
)
from paceline.forecast.agenda import Agenda, Line
from paceline.forecast.plan import Plan
from paceline.ids import COORDINATOR
from paceline.messages.shared import Message

LOOK_S = 0.5  # between two looks at what only time changes
MANIFEST_S = 0.01


class AskingTrainer(Protocol):
    """Who has asked, and is told the reply under its own number."""

    def got(self, number: int, role: str, reply: Message) -> None:
        """The reply is here."""


Decided = Callable[[list[AnyOutcome]], None]


@final
class Coordinator:
    """Requests one at a time on its ``line``, and the decisions of its ``state``."""

    def __init__(self, agenda: Agenda, plan: Plan, decided: Decided) -> None:
        """Open; ``decided`` is told what every event has come to."""
        self.line = Line()
        self.state = CoordinatorState(plan.config(), Durable(), agenda.now_s)
        self._agenda, self._decided = agenda, decided
        self._latency_s, self._service_s = plan.network.latency_s, plan.coordinator_s
        self._tickets = itertools.count(1)
        self._asking: dict[int, tuple[AskingTrainer, int]] = {}  # {ticket: who, its number}
        agenda.at(LOOK_S, self._look)

    def ask(self, role: str, message: Message, asker: AskingTrainer, number: int) -> None:
        """A role asks; the asker is told the reply when there is one."""
        agenda = self._agenda
        served_s = self.line.take(agenda.now_s + self._latency_s, self._service_s)
        agenda.at(served_s, self._take, role, message, asker, number)

    def _take(self, role: str, message: Message, asker: AskingTrainer, number: int) -> None:
        ticket = next(self._tickets)
        self._asking[ticket] = (asker, number)
        self._apply(Asked(role, ticket, message))

    def _look(self) -> None:
        self._apply(TimePassed())
        self._agenda.at(self._agenda.now_s + LOOK_S, self._look)

    def _apply(self, event: Event) -> None:
        agenda = self._agenda
        decision = self.state.apply(event, agenda.now_s)
        arrives_s = agenda.now_s + self._latency_s
        for effect in decision.effects:
            if isinstance(effect, SendReply):
                asking = self._asking.pop(effect.ticket, None)
                if asking is not None:
                    asker, number = asking
                    agenda.at(arrives_s, asker.got, number, COORDINATOR, effect.message)
            elif isinstance(effect, WriteManifest):
                written = ManifestWritten(effect.order.cut.folder, None)
                agenda.at(agenda.now_s + MANIFEST_S, self._apply, written)
        if decision.outcomes:
            self._decided(decision.outcomes)
