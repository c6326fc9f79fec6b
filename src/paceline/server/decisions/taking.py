"""What happens to a trainer's request: above all to a push, by the marks of its slots.

A push passes, in this order: timeline, fence, its number (a repeat of the last one gets the
same answer, an older one none), its round, its window. It is decided once, for all slots,
before any changes; the service lets the numbers follow, in the order of the decisions.

A **mark** is the last batch of an open task that a slot has applied. The identity of a push
is its window, not its sender. A slot takes a window that starts right behind its marks,
drops one that lies wholly at or below them, and refuses anything else. Slots of one server
can differ: a slot keeps its own marks when it moves.

Pure; one at a time: the service holds its lock.
"""

from abc import ABC
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, final

import msgspec

from paceline.errors import HAS_ENDED
from paceline.ids import NO_BATCH, TaskKey, Window
from paceline.messages.data import KeepFrozen, KeepTracked, Push, PushEarly, Upload
from paceline.messages.locking import Lock
from paceline.messages.server import MarkEntry, PartReport
from paceline.messages.shared import Refusal, RefusalKind, TrainerMessage
from paceline.messages.values import SetValues
from paceline.pace.guards import age_range, is_too_old, rate_of, trains_old_again
from paceline.server.decisions.part import Part
from paceline.server.decisions.verdicts import LastPush, Prepared, PushDecision
from paceline.server.decisions.voids import Voids, is_open

_Change = Push | PushEarly | Upload | SetValues | Lock
_NO_PUSH = LastPush(0, is_settled=True)
_Task = tuple[int, int, int]  # stage, epoch, task: what a `TaskKey` says
SlotMarks = dict[TaskKey, int]


@final
class _TaskMarks(dict[int, int]):
    """The marks of one task, ``{slot: last batch applied}``."""

    def __missing__(self, slot: int) -> int:
        return NO_BATCH


_NO_MARKS = _TaskMarks()


class WindowDecision(msgspec.Struct, frozen=True):
    """What a window does to the slots of a part: ``slots`` are those that take it."""

    verdict: Literal["new", "duplicate", "gap"]
    slots: tuple[int, ...]
    reason: str


@final
class Marks:
    """The marks of all slots of a server."""

    def __init__(self) -> None:
        """No slot, no mark."""
        self._slots: set[int] = set()
        # By task, as a window of few tasks goes to all slots of a part.
        self._marks: dict[_Task, _TaskMarks] = {}

    def add_slots(self, slots: Iterable[int]) -> None:
        """Slots without marks."""
        self._slots.update(slots)

    def remove_slots(self, slots: Iterable[int]) -> None:
        """Nobody pushes to them any more."""
        for slot in slots:
            self._slots.discard(slot)
            for marks in self._marks.values():
                marks.pop(slot, None)
        self._marks = {key: marks for key, marks in self._marks.items() if marks}

    def has_slots(self) -> bool:
        """Whether the server has any slot."""
        return bool(self._slots)

    def decide(self, window: Window, slots: tuple[int, ...]) -> WindowDecision:
        """What a window would do to ``slots``; changes nothing."""
        stage, epoch, spans = window
        known = [self._marks.get((stage, epoch, s.task), _NO_MARKS) for s in spans]
        fresh: Sequence[int] = slots
        for marks, (_, first, _) in zip(known, spans, strict=True):
            before = first - 1
            fresh = [slot for slot in fresh if marks[slot] == before]
        if len(fresh) == len(slots):
            return WindowDecision("new", slots, "starts behind the marks")
        for slot in sorted({*slots}.difference(fresh)):
            found = [marks[slot] for marks in known]
            if any(mark < span.last for mark, span in zip(found, spans, strict=True)):
                reason = (
                    f"window {window} neither starts behind the marks {found} of slot "
                    f"{slot} nor lies below them"
                )
                return WindowDecision("gap", (), reason)
        if fresh:
            return WindowDecision("new", tuple(fresh), "starts behind the marks")
        return WindowDecision("duplicate", (), f"window {window} was applied before")

    def take(self, window: Window, slots: tuple[int, ...]) -> WindowDecision:
        """As `decide`, and the slots that it is new to have applied it."""
        decision = self.decide(window, slots)
        self.advance(window, decision.slots)
        return decision

    def advance(self, window: Window, slots: tuple[int, ...]) -> None:
        """These slots have applied a window."""
        stage, epoch, spans = window
        for task, _, last in spans:
            key = (stage, epoch, task)
            if key not in self._marks:
                self._marks[key] = _TaskMarks()
            self._marks[key].update(dict.fromkeys(slots, last))

    def forget(self, stage: int, epoch: int, done: range, kept: frozenset[int]) -> None:
        """A committed cut shows earlier epochs done, and of this one all but ``kept``."""
        now = (stage, epoch, done, kept)
        for key in [key for key in self._marks if not is_open(TaskKey(*key), *now)]:
            del self._marks[key]

    def entry(self, key: TaskKey) -> MarkEntry:
        """The distinct marks of a task over all slots."""
        marks = self._marks.get(key, _NO_MARKS)
        found = {marks[slot] for slot in self._slots}
        return MarkEntry(key, tuple(sorted(found)))

    def entries(self) -> tuple[MarkEntry, ...]:
        """The distinct marks of every task that any slot knows."""
        return tuple(self.entry(TaskKey(*key)) for key in sorted(self._marks))

    def export(self) -> dict[int, SlotMarks]:
        """A copy of everything, for a cut."""
        found: dict[int, SlotMarks] = {slot: {} for slot in self._slots}
        for key, marks in self._marks.items():
            for slot, last in marks.items():
                found[slot][TaskKey(*key)] = last
        return found

    def load(self, marks: dict[int, SlotMarks]) -> None:
        """Everything as a cut has it."""
        self._slots, self._marks = set(marks), {}
        for slot, by_task in marks.items():
            for key, last in by_task.items():
                self._marks.setdefault(key, _TaskMarks())[slot] = last


class Taking(ABC):  # noqa: B024  (only ever what `ServerState` builds on)
    """What a server takes of all that trainers ask: marks, numbers and fences decide.

    Attributes:
        server: its role id.
        timeline: that it is on.
        is_ready: whether it looks at requests at all.
        counters: what has happened how often.
    """

    def __init__(self, server: str) -> None:
        """Empty, on timeline 0."""
        self.server = server
        self.timeline = 0
        self.is_ready = True
        self.counters = Counter(duplicates=0, prepared_dropped=0, fenced=0)
        self._marks = Marks()
        self._voids = Voids()
        self._parts: dict[int, Part] = {}
        self._fenced: set[int] = set()

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
        if refusal is not None:
            return refusal
        part = self._parts.get(message.part)
        if part is None:
            return self._refuse("not_ready", f"part {message.part} is not here yet")
        if part.has_ended:
            return self._refuse("mismatch", HAS_ENDED.format(part=message.part))
        return None

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
            return part.hold(message, window.slots) or refused
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

    def stands_at(self, part: int) -> PartReport:
        """Last applied round and version of a part."""
        found = self._parts[part]
        return PartReport(found.round, found.version, found.has_ended)

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
