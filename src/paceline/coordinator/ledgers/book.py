"""The coordinator's open book: durable state, what need not survive, and this event.

What need not survive lies in ledgers, each of one subject. A decision takes the ledgers
that it may change, and the `Page` of the running event, where it reads how the job stands
and writes what it decides; one that may change nearly everything takes the `Book`.

`Page.commit` is the only way to an outcome, `Page.reply` the only way to an answer; the
service journals the first before it sends the second. A question that cannot be answered
yet is parked: a new one of the same asker takes its place, and `PARK_S` later it is
answered with the reason of the wait.

Pure.
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple, final

from paceline.config import JobConfig, Pace
from paceline.coordinator.durable import Durable, restore
from paceline.coordinator.durable.outcomes import (
    AnyOutcome,
    LeaseGranted,
    StepCommitted,
    TaskDone,
    TaskFailed,
    TaskReturned,
)
from paceline.coordinator.ledgers.clocks import Clocks
from paceline.coordinator.ledgers.cuts import Cuts, Keeping
from paceline.coordinator.ledgers.effects import Effect, SendReply
from paceline.coordinator.ledgers.figures import Metrics, Speeds, Training
from paceline.coordinator.ledgers.members import Members, Reports, TrainersSeen
from paceline.coordinator.ledgers.questions import Asker, Parked, Questions
from paceline.coordinator.ledgers.rounds import Rounds
from paceline.coordinator.ledgers.tasks import Deadlines, TaskProgress, returned_records
from paceline.coordinator.ledgers.unreached import Unreached
from paceline.messages.shared import Message, Refusal, RefusalKind
from paceline.messages.watching import Resumed
from paceline.pace.auto import Governor
from paceline.pace.policy import is_in_step, staleness_of, updates_in_rounds
from paceline.parking import PARK_S, KeyT, Parking

NOT_TRAINING = "no loop over batches is running yet"
# Of these no order of a server follows.
_NO_ORDERS = {LeaseGranted, TaskDone, TaskReturned, TaskFailed, StepCommitted}


class PaceWish(NamedTuple):
    """Parts are to have other paces, {part: pace}, why, and since when."""

    paces: dict[int, Pace]
    reason: str
    is_auto: bool = False
    since_s: float = 0.0


class Page(ABC):
    """The running event: how the job stands, and what is decided. No ledger is open."""

    def __init__(self, config: JobConfig, durable: Durable, now: float) -> None:
        self.config = config
        self.durable = durable  # `commit` alone changes it
        self.now = now
        self.revision = 0  # outcomes so far: the durable state is as it was at this count
        self.orders_revision = 0  # of these, outcomes that may concern servers
        self.first_due_s = math.inf  # no question has waited long enough before
        self._outcomes: list[AnyOutcome] = []
        self._effects: list[Effect] = []

    def commit(self, outcome: AnyOutcome) -> None:
        """Decide an outcome: from here on it is so."""
        restore(outcome, self.durable)
        self.revision += 1
        if type(outcome) not in _NO_ORDERS:
            self.orders_revision += 1
        self._outcomes.append(outcome)

    def reply(self, ticket: int, message: Message) -> None:
        """Answer a question, once this event's outcomes are durable."""
        self._effects.append(SendReply(ticket, message))

    def refuse(self, ticket: int, kind: RefusalKind, text: str) -> None:
        """Refuse what a question asks for, on the current timeline."""
        self.reply(ticket, self.refusal(kind, text))

    def refusal(self, kind: RefusalKind, text: str) -> Refusal:
        """No, on the current timeline."""
        return Refusal(kind=kind, text=text, timeline=self.durable.timeline)

    def effect(self, effect: Effect) -> None:
        """Order something of the service."""
        self._effects.append(effect)

    def park(
        self,
        waiting: Parking[KeyT, Parked],
        key: KeyT,
        asker: Asker,
        message: Message,
        since_s: float | None = None,
    ) -> None:
        """Let a question wait; a new one of the same key takes the place of the old one."""
        until_s = self.now + PARK_S
        if until_s < self.first_due_s:
            self.first_due_s = until_s
        since_s = self.now if since_s is None else since_s
        parked = Parked(asker.ticket, asker.role, message, until_s=until_s, since_s=since_s)
        waiting.park(key, parked)

    def take(self) -> tuple[list[AnyOutcome], list[Effect]]:
        """Outcomes and effects of this event, in order."""
        taken = self._outcomes, self._effects
        self._outcomes, self._effects = [], []
        return taken

    # ------------------------------------------------------------ often asked

    def parts_ready(self) -> bool:
        """Whether all shared parts have their values."""
        for record in self.durable.parts.values():  # noqa: SIM110  (asked at every event)
            if not record.is_ready:
                return False
        return True

    def is_cut_whole(self) -> bool:
        """Whether there is a cut, and all shared parts lie in it."""
        cut = self.durable.cut
        return cut is not None and set(cut.parts) == set(self.durable.parts)

    def sync_parts(self) -> list[int]:
        """Parts that are updated in rounds."""
        specs = self.durable.trained()
        return [part for part, spec in specs.items() if updates_in_rounds(spec.pace)]

    def parts_in_step(self) -> list[int]:
        """Of these, parts whose rounds have all who train."""
        parts = self.durable.parts
        return [p for p in self.sync_parts() if is_in_step(parts[p].plan.spec.pace)]

    def first_trainers(self) -> int:
        """How many trainers the first lease waits for."""
        wanted = self.durable.wanted_trainers
        return min(self.config.trainers, wanted) if wanted else self.config.trainers

    def is_training(self) -> bool:
        """Whether the current stage is a loop over batches."""
        spec = self.durable.stage_spec()
        return spec is not None and spec.is_training

    def is_rotating(self) -> bool:
        """Whether tasks of the current stage are cells of a rotation."""
        spec = self.durable.stage_spec()
        return spec is not None and spec.rotation is not None

    @abstractmethod
    def servers_ready(self) -> bool:
        """Whether all servers of the job are members, on this timeline, and ready."""

    @abstractmethod
    def pauses(self) -> bool:
        """Whether nobody works just now, for the pace is to change."""

    @abstractmethod
    def count_records(self) -> int:
        """Acknowledged records, by the queue's own state and the open tasks' progress."""


@final
class Book(Page):
    """State and running event of one coordinator: a `Page`, and all ledgers."""

    def __init__(self, config: JobConfig, durable: Durable, now: float) -> None:
        super().__init__(config, durable, now)
        self.members = Members(config.timeout_s, now)
        self.servers = Reports(config.servers)
        self.unreached = Unreached(config.timeout_s)
        self.seen = TrainersSeen()
        self.questions = Questions()
        self.rounds = Rounds()
        self.cutting = Cuts(now)
        self.keeping = Keeping(is_fresh=not durable.has_started)
        self.wish: PaceWish | None = None  # the change of pace that the job pauses for
        self.governor: Governor | None = None  # of parts at the pace `auto`
        self.clocks = Clocks(is_whole=not durable.queue.pending)
        self.progress = TaskProgress()
        self.deadlines = Deadlines(config.first_batch_s)
        self.speeds, self.metrics, self.training = Speeds(), Metrics(), Training()
        self.resumed: Resumed | None = None  # where this run went on
        self.is_finishing = False
        self.no_room = ""  # for which roles, as the launcher has said
        self.is_interrupted = False  # an operator wants it, and the launcher is to hear
        spec = durable.stage_spec()
        for record in durable.queue.pending.values():
            assert spec is not None
            self.progress.advance(spec, record.lease.key, record.lease.first - 1)
            self.deadlines.goes_on(record.incarnation, durable.queue, now)
            self.keeping.entered.add(record.incarnation)

    # ------------------------------------------------------------ this event

    def cause_of_orders(self) -> tuple[int, bool, int | None]:
        """As long as it is the same, nothing that orders follow from was decided."""
        cut = None if self.cutting.open is None else self.cutting.open.cut
        return self.orders_revision, self.is_finishing, cut

    def forget_trainer(self, trainer: str, incarnation: int) -> None:
        """A trainer is lost or gone: no ledger knows it any more."""
        self.rounds.drop(trainer)
        self.seen.forget(trainer, incarnation)
        self.keeping.buffers.pop(incarnation, None)
        self.questions.forget(incarnation)
        self.clocks.leave(incarnation)
        self.speeds.forget(incarnation)
        self.deadlines.forget(incarnation)
        self.cutting.forget(incarnation)
        self.members.forget(incarnation)
        self.unreached.forget(incarnation)

    def leave_timeline(self) -> None:
        """What was open is void."""
        self.rounds.clear()
        self.clocks.clear()
        self.progress.clear()
        self.servers.drop()
        self.unreached.drop()
        self.seen.drop()
        self.cutting.drop()
        self.keeping.drop()

    # ------------------------------------------------------------ often asked

    def servers_ready(self) -> bool:
        """Whether all servers of the job are members, on this timeline, and ready."""
        return self.servers.are_ready(self.durable)

    def knows_clocks(self) -> bool:
        """Whether it is known where a trainer without a clock would enter."""
        specs = self.durable.trained().values()
        if all(staleness_of(spec.pace) is None for spec in specs):
            return True
        queue = self.durable.queue
        return not queue.num_holders() or self.clocks.slowest(queue) is not None

    def is_saved(self) -> bool:
        """Whether the cut that the launcher waits for is there, or there can be none."""
        state = self.durable
        if not self.cutting.is_saving:
            return False
        if not state.parts or not self.parts_ready():
            return True
        cut = state.cut.cut if state.cut is not None else -1
        return self.cutting.last_save is not None and cut >= self.cutting.last_save

    def pauses(self) -> bool:
        """Whether nobody works just now, for the pace is to change."""
        return self.wish is not None and self.durable.has_started and self.is_training()

    def count_records(self) -> int:
        """Acknowledged records, by the queue's own state and the open tasks' progress."""
        state = self.durable
        return state.queue.records + returned_records(state) + self.progress.records
