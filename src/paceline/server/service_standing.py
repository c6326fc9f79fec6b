"""How a server stands: its decisions and its numbers, under one lock.

What is decided under the lock is lined up at the slots under the same lock; the numbers
follow outside of it. Orders of the coordinator change it here; requests of trainers are
taken by `paceline.server.service`, which shares the lock.

Waits for nothing but its lock, which is never held while numbers are computed. Any thread
may call; orders come from one thread.
"""

import logging
import threading
from typing import NamedTuple, final

from paceline.errors import JobFailed
from paceline.failpoints import failpoint
from paceline.messages import (
    CommitRound,
    ConfirmTracked,
    CreatePart,
    Fence,
    FenceReport,
    Forget,
    MarksReport,
    PartReport,
    Restore,
    Snapshot,
)
from paceline.server.contents import PushContents
from paceline.server.rounds import Contributed, agreed_hyper
from paceline.server.service_cuts import Share
from paceline.server.service_slots import Slots
from paceline.server.state import ServerState
from paceline.server.tracked import TrackedStates
from paceline.transport.serial import Action

logger = logging.getLogger("paceline.server")


class PreparedPush(NamedTuple):
    """The numbers of a push that waits for its round."""

    contents: PushContents
    slots: frozenset[int]


class Report(NamedTuple):
    """How things stand at one moment, for the coordinator."""

    timeline: int
    ready: bool
    parts: dict[int, PartReport]
    forgotten_cut: int
    counters: dict[str, int]
    tracked: int


class Copy(NamedTuple):
    """A copy for a cut that is being taken: complete when ``done`` is set.

    ``run`` must be called once, by anybody.
    """

    timeline: int
    share: Share
    run: Action
    done: threading.Event


@final
class Standing:
    """All that a server is.

    Attributes:
        server: its role id.
        lock: guards the five attributes below, and the order of actions at the slots.
        state: the decisions.
        slots: the numbers; replaced at every return to a cut.
        prepared: what prepared pushes hold, ``{(part, incarnation): numbers}``.
        tracked: the states of the user's tracked objects.
        failure: why the server cannot go on, if so.
        over: set when the server is to end.
    """

    def __init__(self, server: str, seed: int) -> None:
        """Stand empty, on timeline 0."""
        self.server = server
        self.lock = threading.Lock()
        self.state = ServerState(server)
        self.slots = Slots(server, seed, self.fail)
        self.prepared: dict[tuple[int, int], PreparedPush] = {}
        self.tracked = TrackedStates()
        self.failure: str | None = None
        self.over = threading.Event()
        self._seed = seed

    def fail(self, error: Exception) -> None:
        """Numbers could not follow a decision: nothing more may be answered."""
        logger.critical("%s cannot go on: %s", self.server, error, exc_info=error)
        if self.failure is None:
            self.failure = f"{self.server} cannot go on: {str(error) or repr(error)}"
        self.over.set()

    # ------------------------------------------------------------ orders

    def create_part(self, order: CreatePart) -> None:
        """Make the slots of a part; again, it changes nothing.

        Raises:
            UsageError: no server knows its optimizer or dtype.
        """
        with self.lock:
            if not self.state.has_part(order.plan.spec.part):
                self.slots.create(order.plan)
                self.state.create_part(order.plan)

    def commit_round(self, order: CommitRound) -> None:
        """Apply a round as one update; again, it changes nothing.

        Raises:
            JobFailed: contributors have different hyper-parameters.
        """
        failpoint("server.before_commit")
        with self.lock:
            decision = self.state.commit_round(order)
            contributed = []
            for contribution in order.contributions:
                if contribution.incarnation in decision.incarnations:
                    push = self.prepared.pop((order.part, contribution.incarnation))
                    contributed.append(
                        Contributed(
                            contribution.trainer,
                            contribution.weight,
                            push.slots,
                            push.contents,
                        )
                    )
            hyper = agreed_hyper(order, contributed)
            actions = self.slots.applying_round(order.part, contributed, hyper)
            run = self.slots.line_up(actions, _nothing)
        run()
        failpoint("server.after_commit")

    def fence(self, order: Fence) -> FenceReport | None:
        """Refuse an incarnation from now on; None while a committed round is missing."""
        with self.lock:
            report = self.state.fence(order)
            if report is not None:
                for key in [k for k in self.prepared if k[1] == order.incarnation]:
                    del self.prepared[key]
            return report

    def note(self, order: Forget | ConfirmTracked) -> None:
        """Let marks go that a committed cut makes superfluous, or states but one."""
        with self.lock:
            if isinstance(order, Forget):
                self.state.forget(order)
            else:
                self.tracked.confirm(order.number)

    def marks(self) -> MarksReport:
        """All marks."""
        with self.lock:
            return self.state.marks_report()

    def report(self) -> Report:
        """How things stand now."""
        with self.lock:
            state = self.state
            return Report(
                state.timeline,
                state.is_ready,
                state.parts(),
                state.forgotten_cut,
                dict(state.counters),
                self.tracked.confirmed.number,
            )

    # ------------------------------------------------------------ cuts

    def copy(self, order: Snapshot) -> Copy | None:
        """Begin to copy everything as of now; None while the rounds are not those.

        Pushes go on: those decided before are in the copy, with their marks, and those
        decided later stand behind the copy at every slot.
        """
        done = threading.Event()
        with self.lock:
            if not self.state.may_snapshot(order.rounds):
                return None
            versions = {part: at.version for part, at in self.state.parts().items()}
            actions, tensors = self.slots.copying()
            share = Share(
                tensors, self.state.export_marks(), versions, self.tracked.confirmed
            )
            run = self.slots.line_up(actions, done.set)
            return Copy(self.state.timeline, share, run, done)

    def begin_restore(self, order: Restore) -> Slots | None:
        """Leave the timeline; the slots to load, as planned. None: it was left before.

        Raises:
            UsageError: no server knows an optimizer or dtype of the plans.
        """
        with self.lock:
            if self.state.timeline == order.timeline:
                return None
        slots = Slots(self.server, self._seed, self.fail)
        for plan in order.plans:
            slots.create(plan)
        with self.lock:
            self.state.begin_restore(order)
            self.prepared.clear()
            self.tracked = TrackedStates()
        return slots

    def end_restore(self, order: Restore, slots: Slots, share: Share) -> None:
        """Stand where the cut stood, unless that timeline was left meanwhile."""
        with self.lock:
            if self.state.timeline != order.timeline:
                return
            self.state.end_restore(order, share.marks, share.versions)
            self.tracked = TrackedStates(share.tracked)
            self.slots = slots

    def is_returning(self, order: Restore) -> bool:
        """Whether the numbers of this return are still awaited."""
        with self.lock:
            return self.state.timeline == order.timeline and not self.state.is_ready

    def raise_failure(self) -> None:
        """Say why the server cannot go on, if so.

        Raises:
            JobFailed: with the reason.
        """
        if self.failure is not None:
            raise JobFailed(self.failure)


def _nothing() -> None:
    pass
