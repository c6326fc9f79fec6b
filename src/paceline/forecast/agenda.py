"""Virtual time: what happens next, in order.

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
    """All that is going to happen.

    Attributes:
        now_s: the moment that it is.
    """

    def __init__(self) -> None:
        """Nothing is going to happen, and it is 0."""
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
