"""How a server stands: what the coordinator's orders make of it, and reports of it.

What trainers ask is decided by what it builds on, `paceline.server.decisions.taking`. A
prepared push is kept until the coordinator commits its round or fences its trainer.

One step over several servers and parts is there whole or not at all, by pushes that are
held::

    held       every server has decided the push: its marks allow it, its lock is good
    committed  the coordinator has journalled {part: number} of all pushes of the step;
               or it goes to one server alone, and all of them are held
    applied    told so by the trainer, by the trainer's fence, or by a cut

A held push has no effect and delays nobody who does not want its rows. Whoever tells of a
committed step says the highest number for each part: what is held up to there is applied,
once. What is held beyond is dropped when its trainer is fenced.

Pure; one at a time: the service holds its lock.
"""

from collections.abc import Iterable, Mapping
from typing import final

import msgspec

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
from paceline.messages.shared import Contribution, PartPlan
from paceline.pace.guards import rate_of
from paceline.server.decisions.part import Part
from paceline.server.decisions.taking import Marks, SlotMarks, Taking
from paceline.server.decisions.verdicts import Held, LastPush, Prepared, RoundDecision
from paceline.server.decisions.voids import KeptVoid, Voids


@final
class ServerState(Taking):
    """All decisions of one server."""

    def __init__(self, server: str) -> None:
        """Empty, on timeline 0."""
        super().__init__(server)
        self.forgotten_cut = 0

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
        contributed = []
        for contribution in order.contributions:
            push = self._take_prepared(part, contribution)
            if push is not None:
                contributed.append(contribution.incarnation)
                self._marks.advance(push.window, push.slots)
                if push.is_void and part.counts_pushes:
                    self._count_void("void", push.records)
        rate = rate_of(part.pace, age=0, version=part.version)
        part.round = order.round
        part.version += 1
        late: tuple[int, ...] = ()
        if part.prepared and not part.carries_over:
            left = part.prepared.items()
            late = tuple(i for i, push in left if push.round <= part.round)
            self.counters["prepared_dropped"] += len(late)
        for incarnation in late:  # its trainer is told so when it ticks
            del part.prepared[incarnation]
        return RoundDecision(tuple(contributed), late, part.may_differ, rate)

    def _take_prepared(self, part: Part, contribution: Contribution) -> Prepared | None:
        """The push of a contributor; None if it is a duplicate here."""
        if not part.slots:
            return None
        push = part.prepared.pop(contribution.incarnation, None)
        if push is None:
            verdict = self._marks.decide(contribution.window, part.slots).verdict
            assert verdict == "duplicate", f"{self.server} lacks {contribution}"
        else:
            assert push.number == contribution.number, f"{push} is not {contribution}"
        return push

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

    # ------------------------------------------------------------ held steps

    def take_step(self, incarnation: int, step: Mapping[int, int]) -> dict[int, Held]:
        """A step is committed up to these numbers: the held pushes that follow, by part."""
        taken: dict[int, Held] = {}
        for number, part in sorted(self._parts.items()):
            if self._is_held(part, incarnation, step.get(number, 0)):
                held = taken[number] = part.held.pop(incarnation)
                self._marks.advance(held.window, held.slots)
                part.version += 1
                part.last[incarnation] = LastPush(held.number, is_settled=False)
        return taken

    def drop_step(self, incarnation: int, step: Mapping[int, int]) -> dict[int, Held]:
        """Exactly these held pushes will never be committed; those that were here."""
        dropped: dict[int, Held] = {}
        for number, push in step.items():
            part = self._parts.get(number)
            held = None if part is None else part.held.get(incarnation)
            if part is not None and held is not None and held.number == push:
                dropped[number] = part.held.pop(incarnation)
        return dropped

    def holds_step(self, incarnation: int, step: Mapping[int, int]) -> bool:
        """Whether any push of a committed step is held here still."""
        parts = self._parts.items()
        return any(self._is_held(part, incarnation, step.get(n, 0)) for n, part in parts)

    def has_settled(self, incarnation: int, step: Mapping[int, int]) -> bool:
        """Whether the numbers of a committed step have followed here."""
        known = [self._parts[part] for part in step if part in self._parts]
        last = [part.last.get(incarnation) for part in known]
        return all(one is None or one.is_settled for one in last)

    def is_whole(self, incarnation: int, step: Mapping[int, int]) -> bool:
        """Whether all pushes of a step, ``{part: push}``, are held here."""
        return all(
            part in self._parts and self._is_held(self._parts[part], incarnation, number)
            for part, number in step.items()
        )

    def settle(self, incarnation: int, part: int) -> None:
        """The numbers of a held push have followed, or its trainer is fenced."""
        last = self._parts[part].last if part in self._parts else {}
        if incarnation in last:
            last[incarnation] = LastPush(last[incarnation].number, is_settled=True)

    def _is_held(self, part: Part, incarnation: int, number: int) -> bool:
        held = part.held.get(incarnation)
        return held is not None and held.number <= number

    # ------------------------------------------------------------ reports

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

    def _told(self, entry: MarkEntry) -> MarkEntry:
        """A task's marks, with its voids."""
        return msgspec.structs.replace(entry, voids=self._voids.of(entry.key))
