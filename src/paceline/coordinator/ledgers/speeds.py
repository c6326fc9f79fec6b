"""How many local steps each trainer takes, so that deltas are equally old.

A trainer that is half as fast as the fastest takes half as many batches between two deltas
(dynamic local updates, Liu 2024, 2401.09135). Its speed is the batches of a delta by the
seconds since it went to work on them, as the coordinator sees them: reading, pushing
and pulling count. Nothing is kept over a restart: until it is known again, everybody takes
as many as the fastest.

Pure.
"""

import statistics
from collections import deque
from typing import final

KEPT = 5  # deltas of each trainer


def decide_steps(every: int, speed: float, fastest: float) -> int:
    """Batches of the next delta of a trainer of this speed; at least one."""
    return max(1, min(every, int(every * (speed / fastest) + 1e-9)))


@final
class Speeds:
    """Batches a second of each trainer, by its last deltas."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._went_on_s: dict[int, float] = {}  # {incarnation: since when it computes}
        self._speeds: dict[int, deque[float]] = {}  # {incarnation: of its last deltas}
        self._numbers: dict[int, int] = {}  # {incarnation: its last delta}

    def enters(self, incarnation: int, now_s: float) -> None:
        """A trainer that held no lease has one, and goes to work."""
        self._went_on_s[incarnation] = now_s

    def came(self, incarnation: int, number: int, batches: int, now_s: float) -> None:
        """A delta is applied, and its trainer goes on at once; again, nothing is noted.

        Args:
            incarnation: of the trainer.
            number: of the push; those before it may be told with it.
            batches: in all of them.
            now_s: what time it is.
        """
        if number <= self._numbers.get(incarnation, 0):
            return
        self._numbers[incarnation] = number
        since_s = self._went_on_s.get(incarnation)
        self._went_on_s[incarnation] = now_s
        if since_s is not None and now_s > since_s:
            known = self._speeds.setdefault(incarnation, deque(maxlen=KEPT))
            known.append(batches / (now_s - since_s))

    def steps_of(self, incarnation: int, every: int) -> int:
        """What the next delta of a trainer has, beside all who are known."""
        if incarnation not in self._speeds:
            return every
        medians = {one: statistics.median(known) for one, known in self._speeds.items()}
        return decide_steps(every, medians[incarnation], max(medians.values()))

    def rests(self, incarnation: int) -> None:
        """A trainer has no work: what passes until it has some is not its slowness."""
        self._went_on_s.pop(incarnation, None)

    def forget(self, incarnation: int) -> None:
        """A trainer is lost or gone."""
        self._went_on_s.pop(incarnation, None)
        self._speeds.pop(incarnation, None)
        self._numbers.pop(incarnation, None)
