"""How long the loops over batches of this run have trained: what its rate is by.

::

    a loop trains    from its first lease to its last acknowledged record
    in it            waits for who is slow or has died, and returns to a cut
    in none          the start of the run, evaluations and predictions, what the script
                     does between two loops

Nothing is kept over a restart: `paceline.watch.trained` adds up what coordinators tell.

Pure: time is an argument.
"""

from collections.abc import Callable
from typing import final

from paceline.messages.watching import Trained


@final
class Training:
    """The loops that have trained since this coordinator began.

    Attributes:
        stage: of the last of them; -1 before the first.
    """

    def __init__(self) -> None:
        """No loop has begun."""
        self.stage = -1
        self._first_s = 0.0  # the first loop's first lease
        self._first_records = 0  # of the job, by then
        self._before_s = 0.0  # what the loops before this one took
        self._began_s = self._ended_s = 0.0  # of this one, as far as it is

    def goes_on(self, stage: int, now: float, records: Callable[[], int]) -> None:
        """A task of a loop is leased.

        Args:
            stage: the loop's.
            now: when.
            records: counts those of the job so far; asked when the first loop begins.
        """
        if stage == self.stage:
            return
        if self.stage < 0:
            self._first_s, self._first_records = now, records()
        self._before_s = self._seconds()
        self.stage, self._began_s, self._ended_s = stage, now, now

    def acknowledged(self, stage: int, now: float, records: Callable[[], int]) -> None:
        """Records of a loop are acknowledged; its leases may be another coordinator's."""
        self.goes_on(stage, now, records)
        self._ended_s = now

    def told(self, now: float) -> Trained | None:
        """What an observer is told; None before the first lease."""
        if self.stage < 0:
            return None
        return Trained(now - self._first_s, self._seconds(), self._first_records)

    def _seconds(self) -> float:
        return self._before_s + self._ended_s - self._began_s
