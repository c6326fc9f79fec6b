"""Follows a job's events into a tool until the job is over; or writes out an ended one.

::

    events.jsonl --Tail--> PointReader --points--> RunTracker, then the TrackMark

Waits: for events, a look each `LOOK_EVERY_S`, as long as the job runs; and for the tool.
"""

import itertools
import re
import threading
from typing import NamedTuple, final

from msgspec import structs

from paceline.errors import StoreError
from paceline.launch.job import JobDir, is_running
from paceline.timing import Clock
from paceline.trackers.mark import MarkFile, TrackMark
from paceline.trackers.points import Happening, PointReader, TrackedNumber
from paceline.trackers.tracker import RunEnd, RunTracker, TrackedRun
from paceline.watch.tail import Tail

LOOK_EVERY_S = 1.0
SUMMARY_S = 5.0  # between a launcher's last look at its job and the summary


class Followed(NamedTuple):
    """What has been written, and why no more will be."""

    numbers: int
    happenings: int
    status: str  # of the summary; empty: there is none, or nobody waited for it


@final
class TrackedJob:
    """A job whose events go into one tool."""

    def __init__(
        self, job: JobDir, tracker: RunTracker, mark: MarkFile, clock: Clock
    ) -> None:
        """Nothing is read; the mark is held by the caller."""
        self._job, self._tracker, self._mark, self._clock = job, tracker, mark, clock
        self._tail: Tail | None = None
        self._reader = PointReader()
        self._numbers = self._happenings = 0

    def begin(self, *, by_trainer: bool) -> bool:
        """Make the run in the tool, or go on with it; whether it goes on.

        Raises:
            StoreError: a file of the job is damaged, or the tool fails.
            UsageError: the folder holds no job.
        """
        mark = self._mark.read()
        run = run_of(self._job, by_trainer=by_trainer)
        goes_on = self._tracker.begin(run, None if mark is None else mark.kept)
        if mark is not None and goes_on:
            self._reader = PointReader(mark.state)
            self._tail = Tail(self._job.events, mark.place)
        else:
            self._tail = Tail(self._job.events)
        return goes_on

    def wait_over(self, stop: threading.Event) -> Followed:
        """Write what comes until the job is over, or ``stop`` is set.

        Raises:
            StoreError: the tool fails.
        """
        over_s: float | None = None
        status = ""
        while not stop.is_set():
            lives = is_running(self._job)  # before the last look
            while self.step():
                pass
            if lives:
                over_s = None
            elif (summary := self._job.read_summary()) is not None:
                end = _end_of(summary)
                self._tracker.end(end)
                status = end.status
                break
            else:
                now_s = self._clock.now_s()
                over_s = now_s if over_s is None else over_s
                if now_s - over_s >= SUMMARY_S:
                    break
            stop.wait(LOOK_EVERY_S if lives else LOOK_EVERY_S / 5)
        return Followed(self._numbers, self._happenings, status)

    def step(self) -> bool:
        """Write what has come since, and mark it; whether anything has.

        Raises:
            StoreError: the tool fails.
        """
        assert self._tail is not None, "it was begun"
        events = self._tail.read()
        if not events:
            return False
        told = [found for event in events if (found := self._reader.read(event))]
        if self._tail.has_gap and told:
            self._tail.has_gap = False
            text = "events before this one were gone before they were tracked"
            told.insert(0, [Happening(told[0][0].t, told[0][0].records, text)])
        self._tracker.write(told)
        kept = self._tracker.settle()
        state = structs.replace(self._reader.state)
        self._mark.write(TrackMark(self._tail.place, state, kept))
        for point in itertools.chain(*told):
            if isinstance(point, TrackedNumber):
                self._numbers += 1
            else:
                self._happenings += 1
        return True

    def close(self) -> None:
        """Follow no more; what was written can be gone on with."""
        if self._tail is not None:
            self._tail.close()
        self._tracker.close()


def run_of(job: JobDir, *, by_trainer: bool) -> TrackedRun:
    """What tools are told of a job.

    Raises:
        UsageError: the folder holds no job.
        StoreError: ``job.json`` is damaged.
    """
    config = job.read_config()
    parameters: dict[str, str | int | float] = {
        "pace": str(config.pace),
        "trainers": config.trainers,
        "most_trainers": config.most_trainers or config.trainers,
        "ranks_per_trainer": config.ranks_per_trainer,
        "servers": config.servers,
        "seed": config.seed,
        "script": job.read_script(),
    }
    known_by = config.job or config.run
    if not re.fullmatch(r"[\w-]{1,64}", known_by):  # it names files of some tools
        raise StoreError(
            f"{job.config}: expected a job's id of letters and digits, got {known_by!r}"
        )
    return TrackedRun(known_by, job.path.name, parameters, by_trainer)


def _end_of(summary: dict[str, object]) -> RunEnd:
    numbers = {
        name: float(value)
        for name in ("records", "steps", "epochs", "seconds", "records_per_second")
        if isinstance(value := summary.get(name), int | float)
    }
    how = str(summary.get("ending") or summary["status"])
    return RunEnd(
        "finished" if how == "trained" else how, str(summary.get("reason") or ""), numbers
    )
