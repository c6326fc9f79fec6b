"""The coordinator's open book: durable state, what need not survive, and this event.

All decisions of the room read and write one `Book`. `Book.commit` is the only way to an
outcome, `Book.reply` the only way to an answer; the service journals the first before it
sends the second. A question that cannot be answered yet is parked: a new one of the same
asker takes its place, and `PARK_S` later it is answered with the reason of the wait.

Pure.
"""

import math
from typing import NamedTuple, final

from paceline.config import JobConfig, Pace
from paceline.coordinator.durable import Durable, restore
from paceline.coordinator.durable.outcomes import (
    AnyOutcome,
    LeaseGranted,
    Outcome,
    TaskDone,
    TaskFailed,
    TaskReturned,
)
from paceline.coordinator.ledgers.clocks import Clocks
from paceline.coordinator.ledgers.cuts import OpenCut
from paceline.coordinator.ledgers.effects import Effect, SendReply
from paceline.coordinator.ledgers.members import Members
from paceline.coordinator.ledgers.metrics import Metrics
from paceline.coordinator.ledgers.parking import Asker, KeyT, Parked, Parking
from paceline.coordinator.ledgers.rounds import Rounds
from paceline.coordinator.ledgers.speeds import Speeds
from paceline.coordinator.ledgers.tasks import Deadlines, TaskProgress, returned_records
from paceline.coordinator.ledgers.training import Training
from paceline.ids import TaskKey
from paceline.messages.server import MarkEntry, MarksReport, ServerReport
from paceline.messages.shared import AverageShare, BlockAt, Message, Refusal, RefusalKind
from paceline.messages.watching import Resumed
from paceline.pace.auto import Governor
from paceline.pace.policy import is_in_step, staleness_of, updates_in_rounds

PARK_S = 1.0
NOT_TRAINING = "no loop over batches is running yet"
_OF_TASKS = (LeaseGranted, TaskDone, TaskReturned, TaskFailed)


class PaceWish(NamedTuple):
    """Parts are to have other paces, {part: pace}, why, and since when."""

    paces: dict[int, Pace]
    reason: str
    is_auto: bool = False
    since_s: float = 0.0


@final
class Book:
    """State and running event of one coordinator."""

    def __init__(self, config: JobConfig, durable: Durable, now: float) -> None:
        """Open the book on a new or a restored state."""
        self.config = config
        self.durable = durable
        self.now = now
        self.members = Members(config.timeout_s)
        self.rounds = Rounds()
        self.speeds = Speeds()
        self.clocks = Clocks(is_whole=not durable.queue.pending)
        self.progress = TaskProgress(self._records_of)
        self.deadlines = Deadlines(config.first_batch_s)
        self.open_cut: OpenCut | None = None
        self.is_writing_manifest = False
        self.looked_s = now  # for losses, the last time
        self.last_cut_s = self.retry_cut_s = now
        self.failed_cuts = 0  # in a row
        self.cut_trouble: str | None = None  # why the last cut failed
        self.cut_why, self.cut_trouble_s = "", now  # the bare reason; since when cuts fail
        self.cut_awaited_s: float | None = None  # since when work stands still for one
        self.sought: str | None = None  # folder of the cut that an older one is sought for
        self.reports: dict[str, ServerReport] = {}  # {server id: its last report}
        self.fences: dict[int, dict[str, tuple[MarkEntry, ...]]] = {}
        self.marks: dict[str, MarksReport] = {}  # {server id: after a return}
        self.asked_stage: dict[str, int] = {}  # {trainer id: the stage it is in}
        self.asked_first = (-1, 0.0)  # the last stage asked for, and since when
        self.trainer_records: dict[str, int] = {}  # {trainer id: records finished by it}
        self.metrics = Metrics()
        self.training = Training()
        self.resumed: Resumed | None = None  # where this run went on
        self.to_replace: dict[str, int] = {}  # {server id: pid of its dead process}
        self.leases: Parking[int] = Parking()  # {incarnation: AskLease}
        # {(incarnation, part): Tick}, and the same: Meet
        self.ticks: Parking[tuple[int, int]] = Parking(is_looked_at=False)
        self.meets: Parking[tuple[int, int]] = Parking(is_looked_at=False)
        self.last_late: dict[tuple[int, int], int] = {}  # {(incarnation, part): push}
        self.ahead: Parking[int] = Parking()  # {incarnation: MayGoOn}
        self.shares: Parking[tuple[int, int]] = Parking()  # the same: SharePart
        self.steps: Parking[int] = Parking(is_looked_at=False)  # {incarnation: CommitStep}
        self.saves: Parking[int] = Parking()  # {incarnation: Save}
        self.save_cuts: dict[tuple[int, int], int] = {}  # {(incarnation, number): cut}
        self.idle_servers: Parking[str] = Parking()  # {server id: ServerReport}
        self.wish: PaceWish | None = None  # while the job pauses for it
        self.governor: Governor | None = None  # of parts at the pace `auto`
        self.pace_asks: Parking[int] = Parking()  # {ticket: ChangePace}
        self.setter = 0  # incarnation whose changed values are on their way
        self.is_finishing = False
        self.is_saving = False  # the launcher ends the run early
        self.last_save: int | None = None  # the cut that was begun for it
        self.entered: set[int] = set()  # incarnations that have held a lease
        self.is_fresh = not durable.has_started  # nothing applied since state was kept
        self.track_from: int | None = None  # incarnation that is to keep its state
        self.tracking_s: float | None = None  # since when a cut waits for that
        self.buffers: dict[int, AverageShare] = {}  # {incarnation: what it has kept}
        self.averaging_s: float | None = None  # since when the end of a stage waits
        self.average_by: int | None = None  # incarnation that is to average
        self.is_averaged = False  # the state that counts holds the average
        self.lost_tasks: dict[
            int, tuple[TaskKey, ...]
        ] = {}  # {pid of a lost trainer: tasks}
        self.blocks_at: dict[
            tuple[int, int], tuple[BlockAt, int]
        ] = {}  # {(stage, block): who has left it, its incarnation}; no more than a hint
        self.revision = 0  # outcomes so far: the durable state is as it was at this count
        self.orders_revision = 0  # of these, outcomes that may concern servers
        self.orders_gate: tuple[object, object] = (None, None)  # (of what, what it came to)
        self.first_due_s = math.inf  # no question has waited long enough before
        self._outcomes: list[AnyOutcome] = []
        self._effects: list[Effect] = []
        for record in durable.queue.pending.values():
            self.progress.advance(record.lease.key, record.lease.first - 1)
            self.start_clock(record.incarnation)
            self.entered.add(record.incarnation)

    # ------------------------------------------------------------ this event

    def commit(self, outcome: AnyOutcome) -> None:
        """Decide an outcome: from here on it is so."""
        assert isinstance(outcome, Outcome)
        restore(outcome, self.durable)
        self.revision += 1
        if not isinstance(outcome, _OF_TASKS):
            self.orders_revision += 1
        self._outcomes.append(outcome)

    def reply(self, ticket: int, message: Message) -> None:
        """Answer a question, once this event's outcomes are durable."""
        self._effects.append(SendReply(ticket, message))

    def refuse(self, ticket: int, kind: RefusalKind, text: str) -> None:
        """Refuse what a question asks for, on the current timeline."""
        self.reply(ticket, Refusal(kind=kind, text=text, timeline=self.durable.timeline))

    def effect(self, effect: Effect) -> None:
        """Order something of the service."""
        self._effects.append(effect)

    def cause_of_orders(self) -> tuple[int, bool, int | None]:
        """As long as it is the same, nothing that orders follow from was decided."""
        cut = None if self.open_cut is None else self.open_cut.cut
        return self.orders_revision, self.is_finishing, cut

    def num_outcomes(self) -> int:
        """Outcomes of this event so far."""
        return len(self._outcomes)

    def take(self) -> tuple[list[AnyOutcome], list[Effect]]:
        """Outcomes and effects of this event, in order."""
        taken = self._outcomes, self._effects
        self._outcomes, self._effects = [], []
        return taken

    # ------------------------------------------------------------ parking

    def park(
        self,
        waiting: Parking[KeyT],
        key: KeyT,
        asker: Asker,
        message: Message,
        since_s: float | None = None,
    ) -> None:
        """Let a question wait; a new one of the same key takes the place of the old one."""
        until_s = self.now + PARK_S
        self.first_due_s = min(self.first_due_s, until_s)
        since_s = self.now if since_s is None else since_s
        parked = Parked(asker.ticket, asker.role, message, until_s, since_s)
        waiting.park(key, parked)

    def applied(self) -> None:
        """Something is applied: what trainers have kept is of an earlier moment."""
        self.is_fresh = False
        self.forget_buffers()

    def forget_buffers(self) -> None:
        """What was kept to be averaged is of another moment."""
        self.buffers = {}
        self.averaging_s = self.average_by = None
        self.is_averaged = False

    def unpark(self, incarnation: int) -> None:
        """A trainer is gone: nobody waits for these answers."""
        self.buffers.pop(incarnation, None)
        for asked in (self.leases, self.saves, self.steps, self.ahead):
            asked.take(incarnation)
        self.clocks.leave(incarnation)
        self.speeds.forget(incarnation)
        self.deadlines.forget(incarnation)
        for waiting in (self.ticks, self.shares, self.meets):
            for key in [key for key in waiting if key[0] == incarnation]:
                waiting.take(key)
        for known in (self.last_late, self.save_cuts):
            for key in [key for key in known if key[0] == incarnation]:
                del known[key]

    def refuse_parked(self, text: str) -> None:
        """The timeline is left: an answer would be of another than was asked on."""
        refusal = Refusal(kind="timeline", text=text, timeline=self.durable.timeline)
        asked = (
            *(self.leases, self.ticks, self.ahead, self.shares, self.saves),
            *(self.meets, self.steps),
        )
        for waiting in asked:
            for parked in waiting.take_all():
                self.reply(parked.ticket, refusal)

    def look_at_all(self) -> None:
        """Whoever waits is looked at again, as if everything had changed."""
        for waiting in (
            self.leases,
            self.ahead,
            self.shares,
            self.saves,
            self.pace_asks,
            self.idle_servers,
        ):
            waiting.look_at_all()

    # ------------------------------------------------------------ often asked

    def _records_of(self, key: TaskKey, first: int, last: int) -> int:
        spec = self.durable.stage_spec()
        return spec.batch_records(key.task, first, last) if spec and last >= 0 else 0

    def servers_ready(self) -> bool:
        """Whether all servers of the job are members, on this timeline, and ready."""
        live, timeline = self.durable.servers, self.durable.timeline
        if len(live) != self.config.servers:
            return False
        for server, incarnation in live.items():  # a loop: it is asked at every event
            report = self.reports.get(server)
            if report is None or report.incarnation != incarnation:
                return False
            if report.timeline != timeline or not report.ready:
                return False
        return True

    def parts_ready(self) -> bool:
        """Whether all shared parts have their values."""
        for record in self.durable.parts.values():  # noqa: SIM110  (asked at every event)
            if not record.is_ready:
                return False
        return True

    def is_cut_whole(self) -> bool:
        """Whether there is a cut, and all shared parts lie in it."""
        cut = self.durable.cut
        return cut is not None and self.durable.parts.keys() == set(cut.parts)

    def sync_parts(self) -> list[int]:
        """Parts that are updated in rounds."""
        specs = self.durable.trained()
        return [part for part, spec in specs.items() if updates_in_rounds(spec.pace)]

    def parts_in_step(self) -> list[int]:
        """Of these, parts whose rounds have all who train."""
        parts = self.durable.parts
        return [p for p in self.sync_parts() if is_in_step(parts[p].plan.spec.pace)]

    def knows_clocks(self) -> bool:
        """Whether it is known where a trainer without a clock would enter."""
        specs = self.durable.trained().values()
        if all(staleness_of(spec.pace) is None for spec in specs):
            return True
        queue = self.durable.queue
        return not queue.num_holders() or self.clocks.slowest(queue) is not None

    def forget_saves_in(self, cut: int) -> None:
        """A cut, and what came behind it, is not: whoever waited for it wants another."""
        self.save_cuts = {k: number for k, number in self.save_cuts.items() if number < cut}
        if self.last_save is not None and self.last_save >= cut:
            self.last_save = None

    def is_saved(self) -> bool:
        """Whether the cut that the launcher waits for is there, or there can be none."""
        state = self.durable
        if not self.is_saving:
            return False
        if not state.parts or not self.parts_ready():
            return True
        cut = state.cut.cut if state.cut is not None else -1
        return self.last_save is not None and cut >= self.last_save

    def first_trainers(self) -> int:
        """How many trainers the first lease waits for."""
        wanted = self.durable.wanted_trainers
        return min(self.config.trainers, wanted) if wanted else self.config.trainers

    def start_clock(self, incarnation: int) -> None:
        """A lease holder goes on; its time runs from now."""
        spec = self.durable.stage_spec()
        held = self.durable.queue.held_by(incarnation)
        if spec is None or not held:
            self.deadlines.pause(incarnation)
            return
        records = sum(map(spec.task_records, held))
        self.deadlines.start(incarnation, records, self.now)

    def is_training(self) -> bool:
        """Whether the current stage is a loop over batches."""
        spec = self.durable.stage_spec()
        return spec is not None and spec.is_training

    def pauses(self) -> bool:
        """Whether nobody works just now, for the pace is to change."""
        return self.wish is not None and self.durable.has_started and self.is_training()

    def count_records(self) -> int:
        """Acknowledged records, by the queue's own state and the open tasks' progress."""
        state = self.durable
        return state.queue.records + returned_records(state) + self.progress.records

    def is_rotating(self) -> bool:
        """Whether tasks of the current stage are cells of a rotation."""
        spec = self.durable.stage_spec()
        return spec is not None and spec.rotation is not None
