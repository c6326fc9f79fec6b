"""Virtual time: what happens next, in order; and whatever serves one at a time.

A happening is a function and its arguments, so that a million of them cost no closures.
Two at one moment happen in the order in which they were written down.

Pure.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Any, final

Happening = Callable[..., None]


@final
class Agenda:
    """All that is going to happen."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._is_over = False
        self._numbers = itertools.count()
        self._coming: list[tuple[float, int, Happening, tuple[Any, ...]]] = []  # a heap

    def at(
        self,
        moment_s: float,
        what: Happening,
        *arguments: Any,  # noqa: ANN401  (as `what` takes them)
    ) -> None:
        """Let something happen at a moment; now, if that has passed."""
        heapq.heappush(self._coming, (moment_s, next(self._numbers), what, arguments))

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
        coming = self._coming
        while coming and coming[0][0] <= until_s and not self._is_over:
            moment_s, _, what, arguments = heapq.heappop(coming)
            self.now_s = max(self.now_s, moment_s)
            what(*arguments)
        return self._is_over


@final
class Line:
    """Who comes waits until all who came before are served, by ``free_s``."""

    def __init__(self) -> None:
        self.free_s = self.busy_s = self.waited_s = 0.0
        self.num_served = 0  # how many have come

    def take(self, come_s: float, service_s: float) -> float:
        """Serve one who comes at a moment, not before the last one did; when it is done."""
        start_s = come_s
        if self.free_s > come_s:
            start_s = self.free_s
            self.waited_s += start_s - come_s
        self.busy_s += service_s
        self.num_served += 1
        self.free_s = start_s + service_s
        return self.free_s

    def lengthen(self, service_s: float) -> float:
        """Serve one more together with the last one; when both are done."""
        self.busy_s += service_s
        self.num_served += 1
        self.free_s += service_s
        return self.free_s
