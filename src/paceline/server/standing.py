"""How a server stands: its decisions and its numbers, under one lock.

What is decided under the lock is lined up at the slots under the same lock; the numbers
follow outside of it. Orders of the coordinator change it here; requests of trainers are
taken by `paceline.server.service`, which shares the lock.

Waits for nothing but its lock, which is never held while numbers are computed. Any thread
may call; orders come from one thread.
"""

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, final

from paceline.errors import HyperDiffers, RuleFailed
from paceline.failpoints import armed, failpoint
from paceline.messages.server import (
    CommitRound,
    ConfirmTracked,
    CreatePart,
    EndPart,
    Fence,
    FenceReport,
    Forget,
    MarksReport,
    Restore,
    SlotLoad,
    Snapshot,
    TakePaces,
)
from paceline.messages.shared import Message, Refusal
from paceline.server.decisions import ServerState, TrackedStates
from paceline.server.held_pushes import HeldPushes, Steps
from paceline.server.requests import ComingBytes, EarlyGradients
from paceline.server.requests.contents import PreparedPush
from paceline.server.slots import (
    Action,
    Actions,
    Contributed,
    SlotRunners,
    Slots,
    agreed_hyper,
    count_bytes,
    nothing,
)
from paceline.server.snapshots import CutShare, Pinned, Repacing
from paceline.timing import Clock

PAGES_AT_ONCE: Final = 8  # what a push may have to wait for at a slot, about a millisecond

LOAD_EVERY_S: Final = 0.9  # so that each of the reports that come once a second has it

logger = logging.getLogger("paceline.server")


@final
class ServerCore:
    """All that a server is.

    Attributes:
        server: its role id.
        lock: guards the eight attributes below, and the order of actions at the slots.
        state: the decisions.
        slots: the numbers; replaced at every return to a cut.
        prepared: what prepared pushes hold, ``{(part, incarnation): numbers}``.
        early: gradients that have come ahead of their push.
        held: pushes that wait for their step, and locks.
        tracked: the states of the user's tracked objects.
        frozen: what never changes, while it comes.
        traffic: bytes that were pushed and pulled, before and after coding, as often as
            they travelled: ``part-0.gradient_bytes``, ``part-0.gradient_bytes_sent``, and
            the same of values.
        runners: threads that apply a round together.
        failure: why the server cannot go on, if so.
        is_broken: whether no server in its place could, either: the job fails.
        over: set when the server is to end.
        pinned_cut: the last cut whose moment all slots held.
    """

    def __init__(self, server: str, seed: int, clock: Clock, row_queues: int) -> None:
        """Stand empty, on timeline 0; ``row_queues``: see `Slots`."""
        self.server = server
        self.lock = threading.Lock()
        self.state = ServerState(server)
        self._empty = functools.partial(Slots, server, seed, self.fail, clock, row_queues)
        self.slots = self._empty()
        self.prepared: dict[tuple[int, int], PreparedPush] = {}
        self.early = EarlyGradients()
        self.held = HeldPushes(clock.now_s)
        self.tracked = TrackedStates()
        self.frozen = ComingBytes()
        self.traffic = Counter[str]()
        self.runners = SlotRunners(server)
        self.failure: str | None = None
        self.is_broken = False
        self.over = threading.Event()
        self.pinned_cut = -1
        self._clock = clock
        self._told_load_s = clock.now_s()  # by `lock`
        self._num_merged = 0  # on the timelines before, by `lock`

    def fail(self, error: Exception) -> None:
        """Numbers could not follow a decision: nothing more may be answered.

        What the user's script is the reason of would fail at a server in the place of this
        one, too: this one stays, and says so to all who ask.
        """
        logger.critical("%s cannot go on: %s", self.server, error, exc_info=error)
        if self.failure is None:
            self.failure = f"{self.server} cannot go on: {str(error) or repr(error)}"
            self.is_broken = isinstance(error, HyperDiffers | RuleFailed)
        if not self.is_broken:
            self.over.set()

    def unless_failed(self, answer: Message) -> Message:
        """The answer, unless its numbers may not have followed: then why not."""
        if self.failure is None:
            return answer
        return Refusal(kind="invalid", text=self.failure)

    # ------------------------------------------------------------ orders

    def order_part(self, order: CreatePart | EndPart) -> None:
        """Make the slots of a part, or keep no more than its values; again: nothing.

        Raises:
            UsageError: no server knows its optimizer or dtype.
        """
        actions: Actions = {}
        with self.lock:
            if isinstance(order, EndPart):
                self.state.end_part(order.part)
                actions = self.slots.actions.ending(order.part)
            elif not self.state.has_part(order.plan.spec.part):
                self.slots.create(order.plan)
                self.state.create_part(order.plan)
            run = self.slots.line_up(actions, nothing)
        run()

    def commit_round(self, order: CommitRound) -> None:
        """Apply a round as one update; again, it changes nothing.

        Where contributors have different hyper-parameters, the job has failed.
        """
        if armed:
            failpoint("server.before_commit")
        part = order.part
        with self.lock:
            decision, slots = self.state.commit_round(order), self.slots
            contributed = []
            for one in order.contributions:
                if one.incarnation in decision.incarnations:
                    push = self.prepared.pop((part, one.incarnation))
                    numbers = push.slots, push.contents
                    contributed.append(Contributed(one.trainer, one.weight, *numbers))
            for incarnation in decision.dropped:
                del self.prepared[part, incarnation]
            follow = slots.layouts[part].has_followers
            try:
                hyper = agreed_hyper(
                    order, contributed, may_differ=decision.may_differ, rows_follow=follow
                )
            except HyperDiffers as error:
                self.fail(error)
                return
            actions = slots.actions.applying_round(part, contributed, hyper, decision.rate)
            applied = functools.partial(slots.lent[part].applied, order.round)
            run = slots.line_up(actions, applied, changed=(part,))
            num_bytes = count_bytes(contributed) if len(actions) > 1 else 0  # to share
        self.runners.run(run, num_bytes)
        if armed:
            failpoint("server.after_commit")

    def fence(self, order: Fence) -> FenceReport | None:
        """Refuse an incarnation from now on; None while a committed round is missing."""
        with self.lock:
            self.early.drop(order.incarnation)
            apply = self.take_steps({order.incarnation: order.step}, nothing)
            report = self.state.fence(order)
            if report is not None:
                for key in [k for k in self.prepared if k[1] == order.incarnation]:
                    del self.prepared[key]
                self.held.fence(order.incarnation)
            run = self.slots.line_up(self.slots.actions.standing_still(), nothing)
        apply()
        run()
        return report

    def take_steps(self, steps: Steps, done: Action) -> Action:
        """Under the lock: held pushes of committed steps have their effect.

        ``done`` runs when their numbers have followed.

        Returns:
            What must be run, outside of the lock.
        """
        taken = self.held.taking(self.state, self.slots, steps)
        if not taken:
            return done
        num_left = len(taken)

        def followed() -> None:
            nonlocal num_left
            with self.lock:
                num_left -= 1
                if num_left:
                    return
                for incarnation, part, _ in taken:
                    self.state.settle(incarnation, part)
            done()

        # Each by itself: two of them may have turns at one queue.
        runs = [
            self.slots.line_up(actions, followed, changed=(part,))
            for _, part, actions in taken
        ]

        def run() -> None:
            for one in runs:
                one()

        return run

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

    def counters(self) -> dict[str, int]:
        """Under the lock: what has happened how often."""
        merged = self._num_merged + self.slots.num_merged()
        return {**self.state.counters, **self.traffic, "merged": merged}

    def load(self) -> tuple[SlotLoad, ...] | None:
        """Under the lock: what queues have had to do, told now and then."""
        now_s = self._clock.now_s()
        if now_s < self._told_load_s + LOAD_EVERY_S:
            return None
        self._told_load_s, told = now_s, {}
        for slot, queue in sorted(self.slots.queues.items()):
            if queue not in told:
                longest = queue.take_longest()
                told[queue] = SlotLoad(slot, round(queue.busy_s, 4), longest)
        return tuple(told.values())

    # ------------------------------------------------------------ cuts

    def pin(self, order: Snapshot) -> Pinned | None:
        """Begin to hold everything as of now; None while the rounds are not those.

        Pushes go on: those decided before are in it, with their marks, and those decided
        later stand behind it at every slot. `unpin` must follow.
        """
        done = threading.Event()

        def pinned() -> None:
            self.pinned_cut = order.cut
            done.set()

        with self.lock:
            if not self.state.may_snapshot(order.rounds):
                return None
            apply = self.take_steps(order.steps, nothing)
            versions = {part: at.version for part, at in self.state.parts().items()}
            actions, snapshots = self.slots.actions.pinning()
            pin = self.slots.line_up(actions, pinned)
            return Pinned(
                self.state.timeline,
                self.slots,
                snapshots,
                self.state.export_marks(),
                versions,
                self.state.export_voids(),
                self.tracked.confirmed,
                functools.partial(_both, apply, pin),
                done,
            )

    def copy_some(self, pinned: Pinned, slot: int) -> Callable[[float], bool | None]:
        """Copy a few pages of a slot between two of its updates.

        Returns:
            Waits so many seconds: whether all of the slot is copied, None if not in time.
        """
        done = threading.Event()
        answers: list[bool] = []

        def copy() -> None:
            answers.append(pinned.snapshots[slot].copy_some(PAGES_AT_ONCE))

        with self.lock:
            run = pinned.slots.line_up({slot: copy}, done.set)
        run()
        return lambda timeout_s: answers[0] if done.wait(timeout_s) and answers else None

    def unpin(self, pinned: Pinned) -> None:
        """Hold the moment no longer."""
        with self.lock:
            run = pinned.slots.line_up(pinned.slots.actions.unpinning(), nothing)
        run()

    def begin_restore(self, order: Restore) -> Slots | None:
        """Leave the timeline; the slots to load, as planned. None: it was left before.

        Raises:
            UsageError: no server knows an optimizer or dtype of the plans.
        """
        slots = self._planned(order)
        if slots is None:
            return None
        with self.lock:
            self.state.begin_restore(order)
            self.slots.retire()
            self._drop_pushes()
            self.tracked = TrackedStates()
        return slots

    def end_restore(self, order: Restore, slots: Slots, share: CutShare) -> None:
        """Stand where the cut stood, unless that timeline was left meanwhile."""
        with self.lock:
            if self.state.timeline != order.timeline:
                return
            self.state.end_restore(order, share.marks, share.versions, share.voids)
            self.tracked = TrackedStates(share.tracked)
            self._stand_on(slots)

    def begin_paces(self, order: TakePaces) -> Repacing | None:
        """Leave the timeline; the slots as they are, and as planned. None: it was left.

        `Repacing.run` must be called once; then the new slots hold what the old ones did.

        Raises:
            UsageError: no server can step so on a part of the plans.
        """
        slots = self._planned(order)
        if slots is None:
            return None
        done = threading.Event()
        with self.lock:
            apply = self.take_steps(order.steps, nothing)
            self.state.begin_paces(order)
            self._drop_pushes()
            actions = self.slots.actions.moving(slots.actions, order.without_state)
            move = self.slots.line_up(actions, done.set)
        return Repacing(slots, functools.partial(_both, apply, move), done)

    def end_paces(self, order: TakePaces, slots: Slots) -> None:
        """Go on with these slots, unless that timeline was left meanwhile."""
        with self.lock:
            if self.state.timeline != order.timeline:
                return
            self.state.end_paces(order)
            self.slots.retire()
            self._stand_on(slots)

    def _planned(self, order: Restore | TakePaces) -> Slots | None:
        """The slots of the plans, still empty; None: the timeline was left before."""
        with self.lock:
            if self.state.timeline == order.timeline:
                return None
        slots = self._empty()
        for plan in order.plans:
            slots.create(plan)
        return slots

    def _drop_pushes(self) -> None:
        """A timeline is entered: nothing of the one before is applied any more."""
        self.prepared.clear()
        self.early = EarlyGradients()
        self.held.enter(self.state.timeline)

    def _stand_on(self, slots: Slots) -> None:
        self._num_merged += self.slots.num_merged()
        for part, at in self.state.parts().items():
            slots.lent[part].stand_at(at.applied_round, at.version)
        self.slots = slots

    def is_returning(self, order: Restore | TakePaces) -> bool:
        """Whether the numbers of this return are still awaited."""
        with self.lock:
            return self.state.timeline == order.timeline and not self.state.is_ready


def _both(first: Action, second: Action) -> None:
    first()
    second()
