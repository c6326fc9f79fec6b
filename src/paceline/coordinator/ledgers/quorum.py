"""When a round closes that does not wait for all: a quorum of deltas, then a grace window.

::

    |---- quorum of the deltas are prepared ----|-- grace --|  closed: who came later is
                                                ^              in the round behind it
                                            it is reached

The window is there so that trainers who are as quick as each other stay in one round. How
long it is follows from how far behind a quorum others have come (median and deviation), of
those that a window may wait for at all: a tenth of what a trainer's round takes.

Source: Decoupled DiLoCo (2604.21428) for quorum and grace; the estimate is ours.

Pure.
"""

import statistics
from collections import deque
from collections.abc import Collection
from typing import final

KEPT = 64  # measurements
LARGEST_SHARE = 0.1  # of a trainer's round, that others may be made to wait
DEVIATIONS = 3.0


def decide_grace(lengths: Collection[float], lags: Collection[float]) -> float:
    """Seconds to wait for others when a quorum has come.

    ``lengths`` are seconds from values to a delta, ``lags`` seconds behind a quorum. It is
    the whole window while nothing is known of lags, and 0 if none is within it.
    """
    if not lengths:
        return 0.0
    most = LARGEST_SHARE * statistics.median(lengths)
    if not lags:
        return most
    near = [lag for lag in lags if lag <= most]
    if not near:
        return 0.0
    median = statistics.median(near)
    deviation = statistics.median(abs(lag - median) for lag in near)
    return min(most, median + DEVIATIONS * deviation)


@final
class Quorum:
    """Who has come to the rounds of one part, and when."""

    def __init__(self) -> None:
        self.here: set[str] = set()  # trainers whose delta waits for the open round
        self.until_s: float | None = None  # when the open round closes without the others
        self._reached_s: float | None = None  # when the open round had its quorum
        self._last_s: float | None = None  # the same, of the round before
        self._last: set[str] = set()  # who was in that
        self._lengths: deque[float] = deque(maxlen=KEPT)
        self._lags: deque[float] = deque(maxlen=KEPT)

    def came(self, trainer: str, now_s: float, went_on_s: float | None) -> None:
        """A delta is prepared, computed since ``went_on_s``, if that is known."""
        if went_on_s is not None:
            self._lengths.append(now_s - went_on_s)
        if self._reached_s is not None:
            self._lags.append(now_s - self._reached_s)
        elif self._last_s is not None and trainer not in self._last:
            self._lags.append(now_s - self._last_s)

    def look(self, here: set[str], wanted: int, grace: float | str, now_s: float) -> None:
        """These are here now; a death may have taken the quorum away again.

        ``grace`` is seconds, or ``"auto"``: as `decide_grace` says when a quorum has come.
        """
        self.here = here
        if len(here) < wanted:
            self._reached_s = self.until_s = None
        elif self._reached_s is None:
            auto = grace == "auto"
            seconds = decide_grace(self._lengths, self._lags) if auto else float(grace)
            self._reached_s, self.until_s = now_s, now_s + seconds

    def closed(self) -> None:
        """The open round is closed, with all who are here."""
        self._last_s, self._last = self._reached_s, self.here
        self.here, self._reached_s, self.until_s = set(), None, None
