"""Time, handed in: nobody else in the house reads a clock.

Seconds are floats. Clocks of two machines are never compared.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import final


class Clock(ABC):
    """A source of monotonic seconds."""

    @abstractmethod
    def now_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    @abstractmethod
    def worked_s(self) -> float:
        """Seconds that this thread has computed, while it waited for nobody and nothing."""


@final
class SystemClock(Clock):
    """The machine's monotonic clock, since boot or thereabouts; the kernel counts work."""

    # Both are asked dozens of times a step, so nothing of ours lies in between.
    now_s = staticmethod(time.monotonic)
    worked_s = staticmethod(time.thread_time)


@final
class ManualClock(Clock):
    """A clock that moves only when told to."""

    def __init__(self, start_s: float = 0.0) -> None:
        """Start at ``start_s``."""
        self._now_s = start_s
        self._worked_s = 0.0

    def now_s(self) -> float:
        """The moment it was last set to."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``, which must not be negative."""
        assert seconds >= 0
        self._now_s += seconds

    def worked_s(self) -> float:
        """What `work` has added up to, whichever thread it was."""
        return self._worked_s

    def work(self, seconds: float) -> None:
        """Move on by ``seconds``, in which somebody computes."""
        self.advance(seconds)
        self._worked_s += seconds


@final
class Deadline:
    """A moment on a clock; a wait of many small waits ends when it was promised to end."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        """Expire ``seconds`` from now."""
        self._clock = clock
        self._at_s = clock.now_s() + seconds

    def remaining_s(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._at_s - self._clock.now_s())

    def is_over(self) -> bool:
        """Whether the moment has passed."""
        return self.remaining_s() == 0.0


@final
class SplitTime:
    """Seconds by what they go into: one of so many things at any time, or none.

    One thread turns them, several times a step, and so without a lock; any may be told.
    """

    MOST_TURNS = 256  # that nobody has added up

    def __init__(self, num_things: int) -> None:
        """Nothing takes time yet."""
        self.on: int | None = None  # what, for the thread that turns them
        self._turns: deque[tuple[int | None, float]] = deque()  # to what, and when
        self._lock = threading.Lock()  # guards all below
        self._last: int | None = None  # what they went into before those turns
        self._since_s = 0.0
        self._spent = [0.0] * num_things

    def turn(self, on: int | None, now_s: float) -> None:
        """From now on they go into this; None: into none of them."""
        if on == self.on:
            return
        self.on = on
        self._turns.append((on, now_s))
        if len(self._turns) >= self.MOST_TURNS:
            with self._lock:
                self._add_up()

    def told(self, now_s: float) -> list[float]:
        """All so far, with what lasts."""
        with self._lock:
            self._add_up()
            spent = self._spent.copy()
            if self._last is not None:
                spent[self._last] += max(0.0, now_s - self._since_s)
        return [round(seconds, 4) for seconds in spent]

    def _add_up(self) -> None:
        """Under the lock: nobody else takes turns away; new ones come behind."""
        for _ in range(len(self._turns)):
            on, now_s = self._turns.popleft()
            if self._last is not None:
                self._spent[self._last] += now_s - self._since_s
            self._last, self._since_s = on, now_s


@final
class Repeating:
    """Does something now and then, in a daemon thread of its own.

    What that raises is logged: no surprise ends it.
    """

    def __init__(self, name: str, every_s: float, act: Callable[[], object]) -> None:
        """Begin with `start`; ``every_s`` lie between two times, and before the first."""
        self._every_s, self._act = every_s, act
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread, if there is one; may be repeated."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self._act()
            except Exception:
                logging.getLogger("paceline").exception("%s failed", self._thread.name)


def in_words(seconds: float) -> str:
    """How long: ``12 s``, ``3 min``, ``1.5 h``."""
    if seconds < 100:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def wall_time_s() -> float:
    """Seconds since 1970, for display and file names only: never for decisions."""
    return time.time()
