"""Figures: what the user has logged, how fast trainers are, how long loops have trained.

A trainer sends the user's numbers at most every 50 ms, and what it noted in between only
when it logs again or its loop ends: perhaps long after the others have noted newer values.
So each number comes with how long it has waited, and one that is older than what is known
changes nothing.

A trainer that is half as fast as the fastest takes half as many batches between two deltas,
so that deltas are equally old (dynamic local updates, Liu 2024, 2401.09135). Its speed is
the batches of a delta by the seconds since it went to work on them, as the coordinator sees
them: reading, pushing and pulling count. Until it is known, everybody takes as many as the
fastest.

How long loops have trained is what the rate of a run is by::

    a loop trains    from its first lease to its last acknowledged record
    in it            waits for who is slow or has died, and returns to a cut
    in none          the start of the run, evaluations and predictions, what the script
                     does between two loops

Nothing is kept over a restart: `paceline.watch.summary` adds up what coordinators tell.

Pure: time is an argument.
"""

import statistics
from collections import deque
from collections.abc import Mapping
from typing import final

from paceline.messages.watching import Trained

KEPT = 5  # deltas of each trainer


def decide_steps(every: int, speed: float, fastest: float) -> int:
    """Batches of the next delta of a trainer of this speed; at least one."""
    return max(1, min(every, int(every * (speed / fastest) + 1e-9)))


@final
class Metrics:
    """The last value of each name."""

    def __init__(self) -> None:
        # {name: (when it was noted, its value)}
        self._noted: dict[str, tuple[float, float | None]] = {}

    def note(
        self, numbers: Mapping[str, float | None], ages_s: Mapping[str, float], now: float
    ) -> None:
        """Take numbers, {name: value}, except where a newer one is known.

        ``ages_s`` is {name: how long it has waited to be sent}; what is not there has not.
        """
        for name, value in numbers.items():
            noted_s = now - ages_s.get(name, 0.0)
            known = self._noted.get(name)
            if known is None or known[0] <= noted_s:
                self._noted[name] = noted_s, value

    def last(self) -> dict[str, float | None]:
        """{name: value}, a copy."""
        return {name: value for name, (_, value) in self._noted.items()}


@final
class Speeds:
    """Batches a second of each trainer, by its last deltas."""

    def __init__(self) -> None:
        self._went_on_s: dict[int, float] = {}  # {incarnation: since when it computes}
        self._speeds: dict[int, deque[float]] = {}  # {incarnation: of its last deltas}
        self._numbers: dict[int, int] = {}  # {incarnation: its last delta}

    def enters(self, incarnation: int, now_s: float) -> None:
        """A trainer that held no lease has one, and goes to work."""
        self._went_on_s[incarnation] = now_s

    def came(self, incarnation: int, number: int, batches: int, now_s: float) -> None:
        """A delta is applied, and its trainer goes on at once; again, nothing is noted.

        ``batches`` are in the push of this ``number``, and in those that are told with it.
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


@final
class Training:
    """The loops that have trained since this coordinator began."""

    def __init__(self) -> None:
        self.stage = -1  # of the last loop
        self.ended_s = 0.0  # when records of it were acknowledged last
        self._first_s = 0.0  # the first loop's first lease
        self._first_records = 0  # of the job, by then
        self._before_s = 0.0  # what the loops before this one took
        self._began_s = 0.0

    def begins(self, stage: int, now: float, records: int) -> None:
        """A loop's first task is leased, or acknowledged: another coordinator leased it."""
        if self.stage < 0:
            self._first_s, self._first_records = now, records
        self._before_s = self._seconds()
        self.stage, self._began_s, self.ended_s = stage, now, now

    def told(self, now: float) -> Trained | None:
        """What an observer is told; None before the first lease."""
        if self.stage < 0:
            return None
        return Trained(now - self._first_s, self._seconds(), self._first_records)

    def _seconds(self) -> float:
        return self._before_s + self.ended_s - self._began_s
