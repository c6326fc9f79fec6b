"""A coordinator's state with obedient servers around it, driven by hand."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from paceline.config import JobConfig, Pace, Sync
from paceline.coordinator.durable.durable import Durable
from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.coordinator.ledgers.effects import SendReply, WriteManifest
from paceline.coordinator.state import (
    Asked,
    CoordinatorState,
    Disconnected,
    Event,
    ManifestWritten,
    TimePassed,
)
from paceline.ids import NO_BATCH, Span, Window
from paceline.messages.server import (
    CommitRound,
    CreatePart,
    CutReport,
    EndPart,
    Fence,
    FenceReport,
    MarkEntry,
    MarksReport,
    Orders,
    PartReport,
    Restore,
    SendMarks,
    ServerReport,
    SlotLoad,
    Snapshot,
)
from paceline.messages.shared import Lease, Message, ParameterSpec, PartSpec, StageSpec
from paceline.messages.trainer import (
    AskLease,
    BeginStage,
    Granted,
    Joined,
    JoinTrainer,
    PartUploaded,
    SharePart,
    Tick,
)
from tests.coordinator.replaying import restored, validate

STAGE = StageSpec(0, 40, 2, 10, 2, True, 0, "data")  # 4 tasks of 5 batches, 2 epochs


class Server:
    """Does what it is told, and remembers it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 0
        self.timeline = 0
        self.parts: dict[int, PartReport] = {}
        self.answers: tuple[Any, ...] = ()
        self.marks: dict[Any, tuple[int, ...]] = {}
        self.seen: list[Message] = []
        self.is_deaf = False
        self.pinned_cut = -1
        self.is_writing = False  # a snapshot is held, its file takes long
        self.trouble: str | None = None  # why files cannot be written
        self.is_refused = True  # by storage
        self.damaged: dict[int, str] = {}  # {cut: what is wrong with it}
        self.unreadable: str | None = None
        self.load: tuple[SlotLoad, ...] | None = None

    def report(self) -> ServerReport:
        return ServerReport(
            server=self.name,
            incarnation=self.incarnation,
            timeline=self.timeline,
            address=self.name,
            pid=int(self.name[-1]) + 100,
            host="here",
            ready=self.unreadable is None,
            unreadable=self.unreadable,
            parts=dict(self.parts),
            answers=self.answers,
            pinned_cut=self.pinned_cut,
            load=self.load,
        )

    def obey(self, orders: Orders) -> None:
        self.incarnation, self.answers = orders.incarnation, ()
        for order in orders.orders:
            self.seen.append(order)
            if isinstance(order, CreatePart):
                self.parts[order.plan.spec.part] = PartReport(0, 0)
            elif isinstance(order, EndPart):
                stands = self.parts[order.part]
                self.parts[order.part] = replace(stands, has_ended=True)
            elif isinstance(order, CommitRound):
                self.parts[order.part] = PartReport(order.round, order.round)
            elif isinstance(order, Fence):
                marks = tuple(
                    MarkEntry(key, self.marks.get(key, (NO_BATCH,))) for key in order.keys
                )
                self.answers += (FenceReport(incarnation=order.incarnation, marks=marks),)
            elif isinstance(order, Snapshot):
                self.pinned_cut = order.cut
                if not self.is_writing:
                    report = CutReport(order.cut, (), self.trouble, self.is_refused)
                    self.answers += (report,)
            elif isinstance(order, Restore):
                self.timeline = order.timeline
                self.unreadable = self.damaged.get(order.cut)
                self.parts = {
                    plan.spec.part: PartReport(0, 0, plan.has_ended) for plan in order.plans
                }
            elif isinstance(order, SendMarks):
                entries = tuple(MarkEntry(k, m) for k, m in sorted(self.marks.items()))
                found = MarksReport(timeline=self.timeline, has_slots=True, marks=entries)
                self.answers += (found,)


class Job:
    """Events in, answers out; every event is validated and replayed, if it is checked."""

    def __init__(
        self,
        trainers: int = 1,
        servers: int = 2,
        pace: Pace | None = None,
        parts: int = 1,
        is_checked: bool = True,
        **options: Any,
    ) -> None:
        pace = pace or Sync()
        self.config = JobConfig(
            run="test", trainers=trainers, servers=servers, pace=pace, **options
        )
        self.is_checked = is_checked
        self.now = 0.0
        self.state = CoordinatorState(self.config, Durable(), 0.0)
        self.outcomes: list[AnyOutcome] = []
        self.effects: list[Any] = []
        self.answers: dict[int, Message] = {}
        self.servers = [Server(f"server-{i}") for i in range(servers)]
        self.manifest_trouble: str | None = None  # why none can be written
        self.trainers: dict[str, int] = {}
        self.pace = pace
        self.parts = parts
        self._ticket = 0

    def apply(self, event: Event) -> list[AnyOutcome]:
        decision = self.state.apply(event, self.now)
        self.outcomes += decision.outcomes
        self.effects += decision.effects
        if self.is_checked:
            validate(self.state.durable)
            assert restored(copied(self.outcomes)) == self.state.durable
        for effect in decision.effects:
            if isinstance(effect, SendReply):
                self.answers[effect.ticket] = effect.message
            elif isinstance(effect, WriteManifest):
                self.apply(ManifestWritten(effect.order.cut.folder, self.manifest_trouble))
        return decision.outcomes

    def ask(self, role: str, message: Message) -> int:
        self._ticket += 1
        self.apply(Asked(role, self._ticket, message))
        return self._ticket

    def get(self, role: str, message: Message) -> Any:
        """Ask, let the servers work, and return the answer (None: still parked)."""
        ticket = self.ask(role, message)
        self.serve()
        return self.answers.get(ticket)

    def wait(self, seconds: float) -> None:
        """Let time pass while everybody but the deaf gives signs of life."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 0.25, end)
            self.serve(1)
            self.apply(TimePassed())

    def serve(self, turns: int = 8) -> None:
        for _ in range(turns):
            for server in self.servers:
                if not server.is_deaf:
                    ticket = self.ask(server.name, server.report())
                    if ticket in self.answers:
                        server.obey(self.answers[ticket])  # type: ignore[arg-type]

    def restart(self) -> None:
        """Kill the coordinator and open its journal again."""
        self.state = CoordinatorState(
            self.config, restored(copied(self.outcomes)), self.now
        )

    def who(self, trainer: str) -> dict[str, int]:
        timeline = self.state.durable.timeline
        return {"incarnation": self.trainers[trainer], "timeline": timeline}

    def join(self, trainer: str, previous: int = 0) -> int:
        message = JoinTrainer(trainer=trainer, pid=1, host="here", previous=previous)
        reply = self.get(trainer, message)
        assert isinstance(reply, Joined)
        self.trainers[trainer] = reply.incarnation
        return reply.incarnation

    def open(self, *trainers: str, stage: StageSpec = STAGE) -> None:
        """Bring trainers to the point where they ask for work."""
        self.serve()
        parameters = (ParameterSpec(("w",), (8,), "float32"),)
        for trainer in trainers:
            self.join(trainer)
            for part in range(self.parts):
                spec = PartSpec(part, parameters, None, (), self.pace)
                answer = self.get(trainer, SharePart(**self.who(trainer), spec=spec))
                if answer.upload:
                    self.get(trainer, PartUploaded(**self.who(trainer), part=part))
            self.get(trainer, BeginStage(**self.who(trainer), spec=stage))

    def lease(self, trainer: str, *held: tuple[int, int], stage: int = 0) -> Any:
        reply = self.get(trainer, AskLease(**self.who(trainer), stage=stage, held=held))
        return reply.lease if isinstance(reply, Granted) else reply

    def tick(self, trainer: str, lease: Lease, first: int, last: int, **more: Any) -> Any:
        ticket = self.ask_tick(trainer, lease, first, last, **more)
        self.serve()
        return self.answers.get(ticket)

    def ask_tick(
        self, trainer: str, lease: Lease, first: int, last: int, **more: Any
    ) -> int:
        window = Window(
            lease.key.stage, lease.key.epoch, (Span(lease.key.task, first, last),)
        )
        records = 2 * (last - first + 1)
        fields = {"part": 0, "number": last + 1, "acked": (last,)}
        fields["is_prepared"] = "round" in more
        who = self.who(trainer)
        tick = Tick(**who, window=window, records=records, **{**fields, **more})
        return self.ask(trainer, tick)

    def finish(self, trainer: str, lease: Lease) -> Any:
        """Tick a whole task at once (asynchronous parts)."""
        return self.tick(trainer, lease, lease.first, 4)

    def lose(self, trainer: str) -> None:
        """Close a trainer's connection and let the grace pass."""
        self.apply(Disconnected(self.trainers[trainer]))
        self.wait(0.75)

    def names(self) -> list[str]:
        return [type(outcome).__name__ for outcome in self.outcomes]


def copied(outcomes: list[AnyOutcome]) -> list[AnyOutcome]:
    data = msgspec.msgpack.encode(outcomes)
    return msgspec.msgpack.decode(data, type=list[AnyOutcome])


@pytest.fixture
def make_job() -> Callable[..., Job]:
    return Job
