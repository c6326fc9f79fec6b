"""Held pushes: one step over several servers and parts, whole or not at all.

::

    held       every server has decided the push: its marks allow it, its lock is good
    committed  the coordinator has journalled {part: number} of all pushes of the step;
               or it goes to one server alone, and all of them are held
    applied    told so by the trainer, by the trainer's fence, or by a cut

A held push has no effect and delays nobody who does not want its rows. Whoever tells of a
committed step says the highest number for each part: what is held up to there is applied,
once. What is held beyond is dropped when its trainer is fenced.

Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.server.decisions.part import Part
from paceline.server.decisions.taking import Marks
from paceline.server.decisions.verdicts import Held, LastPush


class HeldSteps(NamedTuple):
    """What one server holds, by the parts and marks as they are just now."""

    parts: Mapping[int, Part]
    marks: Marks

    def take(self, incarnation: int, step: Mapping[int, int]) -> dict[int, Held]:
        """A step is committed up to these numbers: the held pushes that follow, by part."""
        taken: dict[int, Held] = {}
        for number, part in sorted(self.parts.items()):
            if self._is_held(part, incarnation, step.get(number, 0)):
                held = taken[number] = part.held.pop(incarnation)
                self.marks.advance(held.window, held.slots)
                part.version += 1
                part.last[incarnation] = LastPush(held.number, is_settled=False)
        return taken

    def drop(self, incarnation: int, step: Mapping[int, int]) -> dict[int, Held]:
        """Exactly these held pushes will never be committed; those that were here."""
        dropped: dict[int, Held] = {}
        for number, push in step.items():
            part = self.parts.get(number)
            held = None if part is None else part.held.get(incarnation)
            if part is not None and held is not None and held.number == push:
                dropped[number] = part.held.pop(incarnation)
        return dropped

    def holds(self, incarnation: int, step: Mapping[int, int]) -> bool:
        """Whether any push of a committed step is held here still."""
        parts = self.parts.items()
        return any(self._is_held(part, incarnation, step.get(n, 0)) for n, part in parts)

    def has_settled(self, incarnation: int, step: Mapping[int, int]) -> bool:
        """Whether the numbers of a committed step have followed here."""
        known = [self.parts[part] for part in step if part in self.parts]
        last = [part.last.get(incarnation) for part in known]
        return all(one is None or one.is_settled for one in last)

    def is_whole(self, incarnation: int, step: Mapping[int, int]) -> bool:
        """Whether all pushes of a step are held here: {part: push}, none if empty."""
        return bool(step) and all(
            part in self.parts and self._is_held(self.parts[part], incarnation, number)
            for part, number in step.items()
        )

    def settle(self, incarnation: int, part: int) -> None:
        """The numbers of a held push have followed, or its trainer is fenced."""
        last = self.parts[part].last if part in self.parts else {}
        if incarnation in last:
            last[incarnation] = LastPush(last[incarnation].number, is_settled=True)

    def _is_held(self, part: Part, incarnation: int, number: int) -> bool:
        held = part.held.get(incarnation)
        return held is not None and held.number <= number
