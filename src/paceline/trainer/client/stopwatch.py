"""How long batches of this trainer take, without waiting for anybody.

From one batch to the next, less the time in which the trainer waited for other roles: to
read, to compute, and what a step itself costs (cutting gradients, sending, reading values).
What is told of it are quantiles, now and then: enough to forecast the same job elsewhere.

Batches are begun and ended by one thread; what is told of them may be asked by another.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, final

from paceline.messages.shared import SpentTime
from paceline.timing import Clock, SplitTime

MOST_KEPT = 1024  # durations; beyond, every second one is dropped, and so on
MOST_FRESH = 64  # durations that no other thread has looked at
QUANTILES = 21  # the least, the most, and every 5 % between

# What seconds of a trainer go into, one of them at any time, as `SpentTime` has them: they
# add up to the time of its loops.
READ: Final = 0  # a batch that its loop wants
COMPUTE: Final = 1  # what its script does with it
SERVERS: Final = 2  # until they have answered
OTHERS: Final = 3  # until they are there


class Durations(NamedTuple):
    """Seconds of so many batches, as evenly spaced quantiles from the least to the most.

    ``mean_s`` is of all, also of those that the quantiles do not show.
    """

    batches: int
    seconds: tuple[float, ...]
    mean_s: float


@final
class Stopwatch:
    """Durations of batches that have not been told yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.spending = SplitTime(len(SpentTime()))
        self._began_s: float | None = None
        # How long the trainer has waited for others, in all; the thread that begins and
        # ends batches adds to it.
        self.waited_s = 0.0
        self._waited_before_s = 0.0  # when it began
        self._fresh: deque[float] = deque()  # durations; both threads take them, one adds
        self._lock = threading.Lock()  # guards all below
        self._kept: list[float] = []
        self._batches = 0
        self._total_s = 0.0  # of all of them
        self._every = 1  # of so many batches one is kept

    def begin(self) -> None:
        """A batch begins to be read."""
        now_s = self._clock.now_s()
        self.spending.turn(READ, now_s)
        self._began_s, self._waited_before_s = now_s, self.waited_s

    def has_read(self) -> None:
        """It has been read, and is computed."""
        self.spending.turn(COMPUTE, self._clock.now_s())

    def rest(self) -> None:
        """The loop is over, or left."""
        self.spending.turn(None, self._clock.now_s())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Others are waited for, by the thread that begins and ends batches."""
        on, began_s = self.spending.on, self._clock.now_s()
        self.spending.turn(OTHERS, began_s)
        try:
            yield
        finally:
            now_s = self._clock.now_s()
            self.spending.turn(on, now_s)
            self.waited_s += now_s - began_s

    def end(self) -> None:
        """The batch that was begun has been computed."""
        if self._began_s is None:
            return
        waited_s = self.waited_s - self._waited_before_s
        self._fresh.append(self._clock.now_s() - self._began_s - waited_s)
        self._began_s = None
        if len(self._fresh) >= MOST_FRESH:
            with self._lock:
                self._note()

    def spent(self) -> SpentTime:
        """What all seconds so far went into."""
        return SpentTime(*self.spending.told(self._clock.now_s()))

    def take(self) -> Durations | None:
        """What has not been told yet; None if there is nothing."""
        with self._lock:
            self._note()
            kept, batches, total_s = self._kept, self._batches, self._total_s
            self._kept, self._batches, self._every, self._total_s = [], 0, 1, 0.0
        if not kept:
            return None
        return Durations(batches, quantiles(kept), round(total_s / batches, 6))

    def _note(self) -> None:
        """Under the lock: what is fresh is kept, or counted alone."""
        for _ in range(len(self._fresh)):
            taken_s = max(0.0, self._fresh.popleft())
            self._total_s += taken_s
            if self._batches % self._every == 0:
                self._kept.append(taken_s)
            self._batches += 1
            if len(self._kept) >= MOST_KEPT:
                self._kept = self._kept[::2]
                self._every *= 2


def quantiles(numbers: Sequence[float]) -> tuple[float, ...]:
    """As many as are told, from the least number to the most, each between two of them."""
    ordered, told = sorted(numbers), []
    for number in range(QUANTILES):
        # Whoever only starts trainers comes by here: it needs no numpy.
        below, rest = divmod(number * (len(ordered) - 1), QUANTILES - 1)
        low, high = ordered[below], ordered[below + (rest > 0)]
        told.append(round(low + (high - low) * rest / (QUANTILES - 1), 6))
    return tuple(told)
