"""Virtual time: what happens next, in order.

A happening is a function and its arguments, so that a million of them cost no closures.
Two at one moment happen in the order in which they were written down.

Ten thousand trainers have ten thousand happenings ahead, and what comes of a happening is
mostly far behind what comes next. So the future is cut into slots of equal length; only the
slot that it is now is kept in order, and the others when it is their turn.

Pure.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Any, final

Happening = Callable[..., None]
_Entry = tuple[float, int, Happening, tuple[Any, ...]]  # (moment, order of writing, ...)

SLOTS_PER_S = 500.0


@final
class Agenda:
    """All that is going to happen.

    Attributes:
        now_s: the moment that it is.
        num_happened: how much has happened.
    """

    __slots__ = (
        "_is_over",
        "_later",
        "_number",
        "_slot",
        "_slots",
        "_soon",
        "now_s",
        "num_happened",
    )

    def __init__(self) -> None:
        """Nothing is going to happen, and it is 0."""
        self.now_s = 0.0
        self.num_happened = 0
        self._is_over = False
        self._number = itertools.count()
        self._slot = 0  # all up to this one lie in `_soon`
        self._soon: list[_Entry] = []  # a heap
        self._later: dict[int, list[_Entry]] = {}  # {slot: as they were written}
        self._slots: list[int] = []  # a heap: those in `_later`

    def at(
        self,
        moment_s: float,
        what: Happening,
        *arguments: Any,  # noqa: ANN401  (as `what` takes them)
    ) -> None:
        """Let something happen at a moment; now, if that has passed."""
        entry = (moment_s, next(self._number), what, arguments)
        slot = int(moment_s * SLOTS_PER_S)
        if slot <= self._slot:
            heapq.heappush(self._soon, entry)
        elif slot in self._later:
            self._later[slot].append(entry)
        else:
            self._later[slot] = [entry]
            heapq.heappush(self._slots, slot)

    def end(self) -> None:
        """Let no more time pass in this run."""
        self._is_over = True

    def run(self, until_s: float) -> bool:
        """Let time pass.

        Returns:
            Whether it was ended before ``until_s``, and before nothing was left to happen.
            What has not happened then does in the next run.
        """
        self._is_over = False
        pop = heapq.heappop
        while not self._is_over and (soon := self._soon or self._next_slot()):
            moment_s, _, what, arguments = soon[0]
            if moment_s > until_s:
                break
            pop(soon)
            if moment_s > self.now_s:
                self.now_s = moment_s
            self.num_happened += 1
            what(*arguments)
        return self._is_over

    def _next_slot(self) -> list[_Entry]:
        """Put the next slot in order; empty if there is none."""
        if self._slots:
            self._slot = heapq.heappop(self._slots)
            self._soon = self._later.pop(self._slot)
            self._soon.sort()  # moments and numbers alone: no two numbers are equal
        return self._soon
