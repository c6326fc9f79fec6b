"""What happens to a push, a pull, an order: a server's decisions, one per message.

A push passes, in this order: timeline, fence, its number (a repeat of the last one gets the
same answer, an older one none), its round, its window. It is decided once, for all slots,
before any changes; the service lets the numbers follow, in the order of the decisions. A
prepared push is kept until the coordinator commits its round or fences its trainer.

Pure; one at a time: the service holds its lock.
"""

from collections import Counter
from collections.abc import Iterable
from typing import final

import msgspec

from paceline.errors import HAS_ENDED
from paceline.messages.data import KeepFrozen, KeepTracked, Push, PushEarly, Upload
from paceline.messages.locking import Lock
from paceline.messages.server import (
    CommitRound,
    Fence,
    FenceReport,
    Forget,
    MarkEntry,
    MarksReport,
    PartReport,
    Restore,
    TakePaces,
)
from paceline.messages.shared import (
    Contribution,
    PartPlan,
    Refusal,
    RefusalKind,
    TrainerMessage,
)
from paceline.messages.values import SetValues
from paceline.pace.guards import age_range, is_too_old, rate_of, trains_old_again
from paceline.server.decisions.held_steps import HeldSteps, hold
from paceline.server.decisions.marks import Marks, SlotMarks
from paceline.server.decisions.part import Part
from paceline.server.decisions.verdicts import (
    LastPush,
    Prepared,
    PushDecision,
    RoundDecision,
)
from paceline.server.decisions.voids import KeptVoid, Voids

_Change = Push | PushEarly | Upload | SetValues | Lock
_NO_PUSH = LastPush(0, is_settled=True)


@final
class ServerState:
    """All decisions of one server."""

    def __init__(self, server: str) -> None:
        """Empty, on timeline 0."""
        self.server = server
        self.timeline = 0
        self.is_ready = True
        self.forgotten_cut = 0
        self.counters = Counter(duplicates=0, prepared_dropped=0, fenced=0)
        self._marks = Marks()
        self._voids = Voids()
        self._parts: dict[int, Part] = {}
        self._fenced: set[int] = set()

    # ------------------------------------------------------------ orders

    def create_part(self, plan: PartPlan) -> bool:
        """Make room for a part; false if it is there already."""
        if plan.spec.part in self._parts:
            return False
        part = self._parts[plan.spec.part] = Part(plan, self.server)
        self._marks.add_slots(part.slots)
        return True

    def end_part(self, number: int) -> None:
        """Nobody trains a part any more: it has values, and no marks."""
        self._marks.remove_slots(self._parts[number].end())

    def begin_restore(self, order: Restore) -> None:
        """Leave the timeline: everything is refused until `end_restore`."""
        self.timeline = order.timeline
        self.is_ready = False
        self.forgotten_cut = 0
        self._marks = Marks()
        self._voids = Voids()
        self._parts = {}

    def end_restore(
        self,
        order: Restore,
        marks: dict[int, SlotMarks],
        versions: dict[int, int],
        voids: Iterable[KeptVoid] = (),
    ) -> None:
        """The numbers of the cut are loaded: stand where it stood."""
        assert order.timeline == self.timeline
        for plan in order.plans:
            self.create_part(plan)
            part = self._parts[plan.spec.part]
            part.round = order.rounds.get(plan.spec.part, 0)
            part.version = versions.get(plan.spec.part, 0)
        mine = {slot for part in self._parts.values() for slot in part.slots}
        self._marks.load({slot: marks.get(slot, {}) for slot in mine})
        self._voids = Voids(voids)
        self.is_ready = True

    def begin_paces(self, order: TakePaces) -> None:
        """Leave the timeline with all there is: refuse everything until `end_paces`.

        No push is on its way: what is prepared came late for its round.
        """
        self.timeline = order.timeline
        self.is_ready = False
        for part in self._parts.values():
            self.counters["prepared_dropped"] += len(part.prepared)
            part.prepared.clear()
            part.held.clear()

    def end_paces(self, order: TakePaces) -> None:
        """The numbers are as the plans want them: go on from here."""
        assert order.timeline == self.timeline
        for plan in order.plans:
            self._parts[plan.spec.part].march(plan.spec.pace)
        self.is_ready = True

    def fence(self, order: Fence) -> FenceReport | None:
        """Refuse an incarnation from now on; None while a committed round is missing."""
        self._fenced.add(order.incarnation)
        for number, part in self._parts.items():
            if part.round < order.rounds.get(number, 0):
                return None
        for part in self._parts.values():
            self.counters["prepared_dropped"] += part.fence(order.incarnation)
        return FenceReport(
            incarnation=order.incarnation,
            marks=tuple(map(self._told, map(self._marks.entry, order.keys))),
        )

    def commit_round(self, order: CommitRound) -> RoundDecision:
        """Close a round: marks advance, prepared pushes become one update.

        A contribution that was a duplicate here (before the part was in rounds, one server
        had it and another had not) has no effect again.

        Raises:
            AssertionError: a contribution was never prepared here; the server must not
                go on, since the others have it.
        """
        part = self._parts[order.part]
        if order.round <= part.round:
            return RoundDecision(())
        assert order.round == part.round + 1, f"round {part.round} goes on with {order}"
        prepared = [c for c in order.contributions if self._has_prepared(part, c)]
        for contribution in prepared:
            push = part.prepared.pop(contribution.incarnation)
            self._marks.advance(push.window, push.slots)
            if push.is_void and part.counts_pushes:
                self._count_void("void", push.records)
        rate = rate_of(part.pace, age=0, version=part.version)
        part.round = order.round
        part.version += 1
        left = () if part.carries_over else part.prepared.items()
        late = tuple(i for i, push in left if push.round <= part.round)
        for incarnation in late:  # its trainer is told so when it ticks
            del part.prepared[incarnation]
        self.counters["prepared_dropped"] += len(late)
        contributed = tuple(c.incarnation for c in prepared)
        return RoundDecision(contributed, late, part.may_differ, rate)

    def _has_prepared(self, part: Part, contribution: Contribution) -> bool:
        if not part.slots:
            return False
        push = part.prepared.get(contribution.incarnation)
        if push is not None:
            assert push.number == contribution.number, f"{push} is not {contribution}"
            return True
        verdict = self._marks.decide(contribution.window, part.slots).verdict
        assert verdict == "duplicate", f"{self.server} lacks {contribution}"
        return False

    def steps(self) -> HeldSteps:
        """Held pushes, as of now."""
        return HeldSteps(self._parts, self._marks)

    def forget(self, order: Forget) -> None:
        """A committed cut makes marks superfluous."""
        done = range(order.below)
        self._marks.forget(order.stage, order.epoch, done, frozenset(order.kept))
        self._voids.forget(order.stage, order.epoch, done, frozenset(order.kept))
        self.forgotten_cut = order.cut

    def may_snapshot(self, rounds: dict[int, int]) -> bool:
        """Whether all synchronous parts stand at exactly these rounds."""
        return all(
            part.round == rounds.get(number, 0)
            for number, part in self._parts.items()
            if part.is_sync
        )

    # ------------------------------------------------------------ requests

    def refusal_of(self, message: TrainerMessage) -> Refusal | None:
        """Why a trainer's question is not even looked at; None if it is.

        The fenced may read: what they read changes nothing.
        """
        if message.timeline != self.timeline:
            text = (
                f"timeline {message.timeline} was left; {self.server} is on {self.timeline}"
            )
            return self._refuse("timeline", text)
        if not self.is_ready:
            return self._refuse("not_ready", f"{self.server} is returning to a cut")
        return None

    def _fence_of(self, message: TrainerMessage) -> Refusal | None:
        if message.incarnation not in self._fenced:
            return None
        self.counters["fenced"] += 1
        text = f"incarnation {message.incarnation} is fenced at {self.server}"
        return self._refuse("fenced", text)

    def part(self, number: int) -> Part:
        """A part that is here."""
        return self._parts[number]

    def may_keep(self, message: KeepTracked | KeepFrozen) -> Refusal | None:
        """Why the state of tracked objects is refused; None if it is taken."""
        return self.refusal_of(message) or self._fence_of(message)

    def may_stage(self, message: PushEarly) -> Refusal | None:
        """Why gradients ahead of a push are refused; None if they are held for it."""
        refusal = self.may_change(message)
        if refusal is not None:
            return refusal
        last = self._parts[message.part].last.get(message.incarnation)
        if last is not None and message.number <= last.number:
            text = f"gradients for push {message.number} came after push {last.number}"
            return self._refuse("stale", text)
        return None

    def may_lock(self, message: Lock) -> Refusal | None:
        """Why a lock is refused, whoever has the rows; None if it is looked at."""
        refusal = self.may_change(message)
        if refusal is None and self._parts[message.part].is_sync:
            text = f"part {message.part} is updated in rounds: nobody changes rows alone"
            return self._refuse("invalid", text)
        return refusal

    def may_change(self, message: _Change) -> Refusal | None:
        """Why a change of a part is refused, whatever it stands at; None if it is not."""
        refusal = self.refusal_of(message) or self._fence_of(message)
        if refusal is None and message.part not in self._parts:
            return self._refuse("not_ready", f"part {message.part} is not here yet")
        if refusal is None and self._parts[message.part].has_ended:
            return self._refuse("mismatch", HAS_ENDED.format(part=message.part))
        return refusal

    def has_part(self, part: int) -> bool:
        """Whether a part is here."""
        return part in self._parts

    def push(self, message: Push, lost: str | None = None) -> PushDecision:
        """Decide a push; with ``apply``, its marks have moved already.

        ``lost``: why the lock that it is made under is no longer its sender's.
        """
        refusal = self.may_change(message)
        if refusal is not None:
            return PushDecision("refuse", refusal=refusal)
        part = self._parts[message.part]
        last = part.last.get(message.incarnation, _NO_PUSH)
        if message.number < last.number:
            text = f"push {message.number} came after push {last.number}"
            return PushDecision("refuse", refusal=self._refuse("stale", text))
        if message.number == last.number:
            return part.repeat(message, last)
        if part.is_sync and not part.slots:
            # Whether a round is prepared is for servers with slots to say: without marks,
            # this one would take a window that is a duplicate on all others.
            return part.settle(message, "duplicate")
        return self._take(part, message, lost)

    def _take(self, part: Part, message: Push, lost: str | None) -> PushDecision:
        """Decide a push that has not come before."""
        is_kept = message.round is not None or message.is_held
        lacks_round = part.is_sync and bool(message.window.spans)
        is_direct = lost is None and not is_kept and not lacks_round
        age = 0 if message.base is None else max(0, part.version - message.base)
        is_old = is_direct and message.is_judged and is_too_old(part.pace, age)
        stays = not is_direct or (is_old and trains_old_again(part.pace))
        take = self._marks.decide if stays else self._marks.take
        window = take(message.window, part.slots)
        if window.verdict == "gap":
            return PushDecision("refuse", refusal=self._refuse("gap", window.reason))
        if window.verdict == "duplicate":
            self.counters["duplicates"] += 1
            is_void = self._voids.has(message.part, message.window)
            return part.settle(message, "void" if is_void else "duplicate")
        if lost is not None:
            return PushDecision("refuse", refusal=self._refuse("lock_lost", lost))
        if message.round is not None:
            return self._prepare(part, message, window.slots)
        if lacks_round:
            text = f"part {message.part} is updated in rounds; the push names none"
            return PushDecision("refuse", refusal=self._refuse("invalid", text))
        if message.is_held:
            text = f"push {message.number} came while one before it waits for its step"
            refused = PushDecision("refuse", refusal=self._refuse("stale", text))
            return hold(part, message, window.slots) or refused
        if is_old or message.is_void:
            return self._pass_over(part, message, window.slots, is_old=is_old)
        return self._apply(part, message, window.slots, age)

    def _pass_over(
        self, part: Part, message: Push, slots: tuple[int, ...], *, is_old: bool
    ) -> PushDecision:
        """A new push has no effect: a guard keeps it off, or it had none anyway."""
        if part.counts_pushes:
            self._count_void("old" if is_old else "void", message.records)
        if is_old and trains_old_again(part.pace):
            return part.settle(message, "again")
        if slots:
            self._voids.add(message.part, message.window)
        return part.settle(message, "void", slots)

    def _apply(
        self, part: Part, message: Push, slots: tuple[int, ...], age: int
    ) -> PushDecision:
        """A new push is applied at once; its marks have moved."""
        rate = rate_of(part.pace, age=age, version=part.version)
        if part.counts_pushes:
            self.counters[f"part-{message.part}.age.{age_range(age)}"] += 1
        part.version += 1
        last = part.last[message.incarnation] = LastPush(message.number, is_settled=False)
        return PushDecision("apply", slots, rate=rate, version=part.version, last=last)

    def _count_void(self, what: str, records: int) -> None:
        self.counters.update({what: 1, f"{what}_records": records})

    def _told(self, entry: MarkEntry) -> MarkEntry:
        """A task's marks, with its voids."""
        return msgspec.structs.replace(entry, voids=self._voids.of(entry.key))

    def stands_at(self, part: int) -> PartReport:
        """Last applied round and version of a part."""
        found = self._parts[part]
        return PartReport(found.round, found.version, found.has_ended)

    def parts(self) -> dict[int, PartReport]:
        """How all parts stand."""
        return {number: self.stands_at(number) for number in sorted(self._parts)}

    def marks_report(self) -> MarksReport:
        """All marks, for the coordinator after a return."""
        return MarksReport(
            timeline=self.timeline,
            has_slots=self._marks.has_slots(),
            marks=tuple(map(self._told, self._marks.entries())),
        )

    def export_voids(self) -> tuple[KeptVoid, ...]:
        """A copy of all batches without effect, for a cut."""
        return self._voids.export()

    def export_marks(self) -> dict[int, SlotMarks]:
        """A copy of all marks, for a cut."""
        return self._marks.export()

    def _prepare(self, part: Part, message: Push, slots: tuple[int, ...]) -> PushDecision:
        assert message.round is not None
        if message.round <= part.round and part.does_without:  # so that it is of none
            return part.settle(message, "late")
        if message.round <= part.round and not part.carries_over:
            text = f"round {message.round} closed without it; {part.round} is applied"
            return PushDecision("refuse", refusal=self._refuse("stale", text))
        if message.round > part.round + 1:
            text = f"round {message.round} cannot be prepared; {part.round} is applied"
            return PushDecision("refuse", refusal=self._refuse("not_ready", text))
        part.prepared[message.incarnation] = Prepared(
            message.number,
            message.round,
            message.window,
            slots,
            message.is_void,
            message.records,
        )
        part.last[message.incarnation] = LastPush(message.number, is_settled=True)
        return PushDecision("prepare", slots)

    def _refuse(self, kind: RefusalKind, text: str) -> Refusal:
        return Refusal(kind=kind, text=text, timeline=self.timeline)
