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
        self.num_happened = 0
        self._next = itertools.count()
        # (moment, order of writing, what, its arguments)
        self._coming: list[tuple[float, int, Happening, tuple[Any, ...]]] = []

    def at(
        self,
        moment_s: float,
        what: Happening,
        *arguments: Any,  # noqa: ANN401  (as `what` takes them)
    ) -> None:
        """Let something happen at a moment; now, if that has passed."""
        heapq.heappush(self._coming, (moment_s, next(self._next), what, arguments))

    def run(self, until_s: float, is_over: Callable[[], bool]) -> bool:
        """Let time pass.

        Returns:
            Whether it was over before ``until_s``, and before nothing was left to happen.
        """
        coming, pop = self._coming, heapq.heappop
        while coming and not is_over():
            moment_s, _, what, arguments = coming[0]
            if moment_s > until_s:
                break
            pop(coming)
            if moment_s > self.now_s:
                self.now_s = moment_s
            self.num_happened += 1
            what(*arguments)
        return is_over()
