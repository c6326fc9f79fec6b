"""What the seconds of this trainer go into: one of four at any time, or none of them.

::

    read       a batch that its loop wants          servers    until they have answered
    compute    what its script does with it         others     until they are there

They add up to the time of its loops. What a script does outside of them is in none.

Any thread may call; the one that turns them is one.
"""

import math
import threading
from typing import Final, final

from paceline.messages.shared import SpentTime

READ: Final = 0
COMPUTE: Final = 1
SERVERS: Final = 2
OTHERS: Final = 3
TELL_EVERY_S = 1.0


@final
class Spending:
    """Seconds by what they went into."""

    def __init__(self) -> None:
        self.on: int | None = None  # what; the thread that turns them alone reads it
        self._lock = threading.Lock()  # guards all three
        self._since_s = 0.0
        self._told_s = -math.inf
        self._spent = [0.0, 0.0, 0.0, 0.0]

    def turn(self, on: int | None, now_s: float) -> None:
        """From now on they go into this; None: into none of the four."""
        with self._lock:
            if self.on is not None:
                self._spent[self.on] += now_s - self._since_s
            self.on, self._since_s = on, now_s

    def due(self, now_s: float) -> SpentTime | None:
        """What is to be told with the next message; None: it was told just now."""
        if now_s < self._told_s + TELL_EVERY_S:
            return None
        self._told_s = now_s
        return self.told(now_s)

    def told(self, now_s: float) -> SpentTime:
        """All so far, with what lasts."""
        with self._lock:
            spent = self._spent.copy()
            if self.on is not None:
                spent[self.on] += max(0.0, now_s - self._since_s)
        return SpentTime(*(round(seconds, 4) for seconds in spent))
