"""What `paceline.Auto` decides: when a job's pace loosens by a step, and when it tightens.

::

    sync <-> ssp:1 <-> ssp:3 <-> ssp:8 <-> async
      loosens   trainers waited for each other longer than they may, over `least_s`
      tightens  the watched number rose: the median of the last 5 is above the median of
                those before by `alarm` deviations (1.4826 MAD), or one is not finite; or
                the guard `norm` has kept a push from having its effect

Between two changes lies `least_s`. An alarm outweighs any waiting, and the same waiting as
before must not undo it at once: after the n-th nothing loosens for ``2**n * least_s``. What
has alarmed is not taken for how things usually are; so numbers that stay high alarm again,
until the pace is ``sync``.

Pure: time is an argument.
"""

import math
from collections import deque
from statistics import median
from typing import NamedTuple, final, get_args

from paceline.config import SSP, Async, Auto, Pace, Sync
from paceline.pace_specs.auto import Looseness

RECENT, FEWEST_BEFORE, MOST_BEFORE = 5, 10, 100  # numbers
MOST_DOUBLED = 6
_MAD = 1.4826  # of a normal distribution: its standard deviation
_SLACK = 1e-3  # of the median: numbers that hardly differ do not alarm


class Change(NamedTuple):
    """A step to another pace, and why."""

    pace: Pace
    reason: str


def steps_of(auto: Auto) -> tuple[Pace, ...]:
    """The paces that it may have, the tightest first."""
    names = get_args(Looseness)
    paces: tuple[Pace, ...] = (
        Sync(reduce=auto.reduce, codec=auto.codec, guards=auto.guards),
        *(SSP(staleness=s, codec=auto.codec, guards=auto.guards) for s in (1, 3, 8)),
        Async(codec=auto.codec, guards=auto.guards),
    )
    return paces[: names.index(auto.loosest) + 1]


@final
class Governor:
    """What has been seen since the last change; one for all parts that go together."""

    def __init__(self, auto: Auto, now: float) -> None:
        self.auto = auto
        self._steps = steps_of(auto)
        self._seen_s = self._began_s = now
        self._trained_s = self._waited_s = 0.0  # of all trainers, since it was begun
        self._before: deque[float] = deque(maxlen=MOST_BEFORE)
        self._recent: list[float] = []
        self._alarm: str | None = None
        self._alarms = 0
        self._holds_until_s = now

    def passed(self, now: float, num_trainers: int) -> None:
        """So many trainers have held work until now, since this was said last."""
        self._trained_s += max(0.0, now - self._seen_s) * num_trainers
        self._seen_s = now

    def waited(self, seconds: float) -> None:
        """A trainer with work has waited for others."""
        self._waited_s += max(0.0, seconds)

    def logged(self, number: float | None) -> None:
        """The watched number was told; None: it is not finite."""
        if number is None or not math.isfinite(number):
            self._alarm = f"{self.auto.watch} is not finite"
            return
        self._recent.append(number)
        if len(self._recent) < RECENT:
            return
        now, limit = median(self._recent), self._limit()
        if limit is not None and now > limit:
            self._alarm = f"{self.auto.watch} rose to {now:.4g}, expected {limit:.4g}"
            self._recent = []  # not how things usually are
            return
        self._before.append(self._recent.pop(0))

    def refused(self, norm: float) -> None:
        """A push had no effect, so large was its norm beside the usual ones."""
        self._alarm = f"a push had a norm of {norm:.4g}"

    def _limit(self) -> float | None:
        if len(self._before) < FEWEST_BEFORE:
            return None
        usual = median(self._before)
        deviation = _MAD * median(abs(one - usual) for one in self._before)
        return usual + self.auto.alarm * max(deviation, _SLACK * abs(usual))

    def decide(self, now: float, pace: Pace) -> Change | None:
        """The step to take from a pace now, if any; it is taken to be carried out.

        A pace that is none of its steps stays.
        """
        if now - self._began_s < self.auto.least_s or pace not in self._steps:
            return None
        step = self._steps.index(pace)
        share = self._waited_s / self._trained_s if self._trained_s > 0 else 0.0
        self._trained_s = self._waited_s = 0.0
        self._began_s = now
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            self._alarms = min(self._alarms + 1, MOST_DOUBLED)
            self._holds_until_s = now + 2.0**self._alarms * self.auto.least_s
            return None if step == 0 else Change(self._steps[step - 1], alarm)
        is_held = now < self._holds_until_s or step + 1 == len(self._steps)
        if is_held or share <= self.auto.wait:
            return None
        reason = f"trainers waited {share:.0%} of {self.auto.least_s:g} s"
        return Change(self._steps[step + 1], reason)
