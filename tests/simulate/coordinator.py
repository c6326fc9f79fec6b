"""A coordinator in the wind tunnel: `CoordinatorState` with a journal that survives it."""

import itertools
from typing import final

import msgspec

from paceline.config import JobConfig
from paceline.coordinator.decisions import Stored
from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.coordinator.ledgers import ManifestOrder
from paceline.coordinator.ledgers.effects import (
    DropCut,
    Effect,
    Happened,
    SeekCut,
    SendReply,
)
from paceline.coordinator.state import (
    Asked,
    CoordinatorState,
    CutSought,
    Event,
    ManifestWritten,
    TimePassed,
)
from paceline.ids import COORDINATOR
from paceline.messages.shared import Message
from tests.coordinator.replaying import restored, validate
from tests.simulate.disk import Disk
from tests.simulate.world import Answer, SimProcess, World

TICK_S = 0.1
SEEK_S = 0.2  # whole cuts are read
FAULT = "crash_coordinator"


@final
class SimJournal:
    """What survives a coordinator; an outcome counts once it is in here."""

    def __init__(self) -> None:
        """Empty."""
        self.outcomes: list[AnyOutcome] = []


@final
class SimCoordinator(SimProcess):
    """One process of the coordinator."""

    def __init__(
        self, world: World, config: JobConfig, journal: SimJournal, disk: Disk
    ) -> None:
        """Open on the journal; cuts lie on the disk."""
        super().__init__(world, COORDINATOR)
        self._journal, self._disk = journal, disk
        self._tickets = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        durable = restored(_copied(journal.outcomes))
        self.state = CoordinatorState(config, durable, world.now_s)
        self.after(TICK_S, self._tick)

    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """Take a request."""
        ticket = next(self._tickets)
        self._answers[ticket] = answer
        self._apply(Asked(sender, ticket, message))

    def journalled(self) -> Durable:
        """What a restart now would know."""
        return restored(_copied(self._journal.outcomes))

    def _tick(self) -> None:
        self._apply(TimePassed())
        self.after(TICK_S, self._tick)

    def _apply(self, event: Event) -> None:
        decision = self.state.apply(event, self.world.now_s)
        if decision.outcomes:  # nothing else changes what is asserted
            validate(self.state.durable)
        self.carry_out(decision.outcomes, decision.effects)

    def carry_out(self, outcomes: list[AnyOutcome], effects: list[Effect]) -> None:
        """Journal first, then let effects go out; it may die between any two."""
        if outcomes:
            self.may_crash(FAULT)
            self._journal.outcomes += outcomes
            self.may_crash(FAULT)
        for effect in effects:
            self.send(effect)

    def send(self, effect: Effect) -> None:
        """Let one effect go out."""
        if isinstance(effect, Happened | DropCut):
            return
        self.may_crash(FAULT)
        if isinstance(effect, SendReply):
            answer = self._answers.pop(effect.ticket, None)
            if answer is not None:
                answer(effect.message)
        elif isinstance(effect, SeekCut):
            self._seek_cut(effect)
        else:
            self._write_manifest(effect.order)

    def _write_manifest(self, order: ManifestOrder) -> None:
        def written() -> None:
            self.may_crash(FAULT)
            self._disk.commit(order)
            self.may_crash(FAULT)
            self._apply(ManifestWritten(order.cut.folder, None))

        self.after(0.01, written)

    def _seek_cut(self, effect: SeekCut) -> None:
        def found() -> None:
            order = self._disk.newest_whole(effect.cut, effect.timeline)
            self._apply(CutSought(effect.folder, _stored(order)))

        self.after(SEEK_S, found)


def _stored(order: ManifestOrder) -> Stored:
    """A cut as it is read back from its manifest."""
    cut = msgspec.structs.replace(order.cut, ends_stage=False)
    return Stored(cut, order.plans, cut.timeline)


_decoder = msgspec.msgpack.Decoder(list[AnyOutcome])


def _copied(outcomes: list[AnyOutcome]) -> list[AnyOutcome]:
    """As read back from disk: restoring must not share structs with the dead."""
    data = msgspec.msgpack.encode(outcomes)
    return _decoder.decode(data)
