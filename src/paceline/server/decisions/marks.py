"""Marks: the last batch of each open task that a slot has applied.

The identity of a push is its window, not its sender. A slot takes a window that starts
right behind its marks, drops one that lies wholly at or below them, and refuses anything
else. Slots of one server can differ: a slot keeps its own marks when it moves.

Pure.
"""

from collections.abc import Iterable
from typing import Literal, final

import msgspec

from paceline.ids import NO_BATCH, TaskKey, Window
from paceline.messages.server import MarkEntry

SlotMarks = dict[TaskKey, int]


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
        self._marks: dict[int, SlotMarks] = {}  # {slot: {task: last batch applied}}

    def add_slots(self, slots: Iterable[int]) -> None:
        """Slots without marks."""
        for slot in slots:
            self._marks.setdefault(slot, {})

    def remove_slots(self, slots: Iterable[int]) -> None:
        """Nobody pushes to them any more."""
        for slot in slots:
            self._marks.pop(slot, None)

    def has_slots(self) -> bool:
        """Whether the server has any slot."""
        return bool(self._marks)

    def decide(self, window: Window, slots: tuple[int, ...]) -> WindowDecision:
        """What a window would do to ``slots``; changes nothing."""
        state = list(zip(window.task_keys(), window.spans, strict=True))
        fresh = []
        for slot in slots:
            marks = self._marks[slot]
            is_behind = is_below = True
            for key, (_, first, last) in state:
                mark = marks.get(key, NO_BATCH)
                is_behind = is_behind and first == mark + 1
                is_below = is_below and last <= mark
            if is_behind:
                fresh.append(slot)
            elif not is_below:
                found = [marks.get(key, NO_BATCH) for key, _ in state]
                reason = (
                    f"window {window} neither starts behind the marks {found} of slot "
                    f"{slot} nor lies below them"
                )
                return WindowDecision("gap", (), reason)
        if fresh or not slots:
            return WindowDecision("new", tuple(fresh), "starts behind the marks")
        return WindowDecision("duplicate", (), f"window {window} was applied before")

    def take(self, window: Window, slots: tuple[int, ...]) -> WindowDecision:
        """As `decide`, and the slots that it is new to have applied it."""
        decision = self.decide(window, slots)
        self.advance(window, decision.slots)
        return decision

    def advance(self, window: Window, slots: tuple[int, ...]) -> None:
        """These slots have applied a window."""
        for key, span in zip(window.task_keys(), window.spans, strict=True):
            for slot in slots:
                self._marks[slot][key] = span.last

    def forget(self, stage: int, epoch: int, done: range, kept: frozenset[int]) -> None:
        """A committed cut shows earlier epochs done, and of this one all but ``kept``."""
        for slot, marks in self._marks.items():
            self._marks[slot] = {
                key: mark
                for key, mark in marks.items()
                if (key.stage, key.epoch) > (stage, epoch)
                or (
                    (key.stage, key.epoch) == (stage, epoch)
                    and (key.task not in done or key.task in kept)
                )
            }

    def entry(self, key: TaskKey) -> MarkEntry:
        """The distinct marks of a task over all slots."""
        found = {marks.get(key, NO_BATCH) for marks in self._marks.values()}
        return MarkEntry(key, tuple(sorted(found)))

    def entries(self) -> tuple[MarkEntry, ...]:
        """The distinct marks of every task that any slot knows."""
        keys = {key for marks in self._marks.values() for key in marks}
        return tuple(self.entry(key) for key in sorted(keys))

    def export(self) -> dict[int, SlotMarks]:
        """A copy of everything, for a cut."""
        return {slot: dict(marks) for slot, marks in self._marks.items()}

    def load(self, marks: dict[int, SlotMarks]) -> None:
        """Everything as a cut has it."""
        self._marks = {slot: dict(by_task) for slot, by_task in marks.items()}
