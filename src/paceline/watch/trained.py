"""How long a run took to its first batch, and how fast it trained from then on.

A coordinator tells how long its loops have trained. One
that has restarted begins anew: what it was away for belongs to the loop in its midst.

Pure: time is an argument.
"""

from typing import final

from paceline.ids import COORDINATOR
from paceline.messages.watching import JobStatus, Trained


@final
class RunTime:
    """What the statuses of one run come to.

    ``start_s`` is from the run's start to its first lease in a loop over batches; None
    before that.
    """

    def __init__(self, started_s: float) -> None:
        self.start_s: float | None = None
        self._started_s = started_s
        self._records_before = 0  # of the job, when its loops began in this run
        self._before_s = 0.0  # in coordinators before this one
        self._pid = 0  # of this one
        self._told = Trained(0.0, 0.0, 0)
        self._heard_s = started_s
        self._was_training = False

    def note(self, status: JobStatus, now: float) -> None:
        """Take note of how the job stands, on the clock of the run's start."""
        told = status.trained
        if told is None:
            return
        pid = next((p.pid for p in status.processes if p.id == COORDINATOR), 0)
        if self.start_s is None:
            self.start_s = max(0.0, now - told.since_s - self._started_s)
            self._records_before = told.records
        elif pid != self._pid:
            away_s = now - told.since_s - self._heard_s if self._was_training else 0.0
            self._before_s += self._told.seconds + max(0.0, away_s)
        self._pid, self._told, self._heard_s = pid, told, now
        self._was_training = bool(status.kind == "train" and status.queue.pending)

    def records_per_second(self, records: int) -> float:
        """The rate at which the job has come to so many records in this run's loops."""
        seconds = self._before_s + self._told.seconds
        return max(0, records - self._records_before) / seconds if seconds > 0 else 0.0
