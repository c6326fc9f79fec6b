"""What writes to a tool that keeps runs: one shape for all tools.

::

    begin    make the run, or go on with it            once
    write    what events say, in their order
    settle   what was written is kept, whatever becomes of this process
    end      the run is over, and how                  or it goes on another time:
    close    nothing more is written

Waits: for the tool, which may wait for the disk or for a server. One thread.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from paceline.trackers.points import Told, TrackedNumber


class TrackedRun(msgspec.Struct, frozen=True):
    """What a tool is told of a run when it begins.

    Attributes:
        job: the job's id, which it keeps when it is resumed.
        name: of its folder.
        parameters: how it was started: pace, trainers, servers, seed, script and others.
        by_trainer: whether numbers that trainers log are to be told apart.
    """

    job: str
    name: str
    parameters: dict[str, str | int | float]
    by_trainer: bool = False


class RunEnd(msgspec.Struct, frozen=True):
    """How a job has ended.

    Attributes:
        status: ``finished``, ``failed``, ``stopped``; ``interrupted`` and whatever else a
            summary may say.
        numbers: of the summary: seconds, records, steps ...
    """

    status: str
    reason: str
    numbers: dict[str, float]


Kept = dict[str, str | int]  # what a tool wants to find again when its run goes on


class RunTracker(Protocol):
    """A tool's run that is written to.

    Each call raises `StoreError` if the tool does not do what it should.
    """

    def begin(self, run: TrackedRun, kept: Kept | None) -> bool:
        """Make the run, or go on with that of which `settle` said ``kept``.

        Returns:
            Whether it goes on; False: it is new, or was there and is gone, so that all
            events are to be written.
        """
        ...

    def write(self, told: Sequence[Told]) -> None:
        """Add what each event says to the run, in this order."""
        ...

    def settle(self) -> Kept:
        """See to it that what was written outlives this process; where to go on."""
        ...

    def end(self, end: RunEnd) -> None:
        """The job is over."""
        ...

    def close(self) -> None:
        """Write nothing more; a run that has not ended can be gone on with."""
        ...


def name_of(number: TrackedNumber, *, by_trainer: bool) -> str:
    """What a tool that has no runs within a run calls a number."""
    return (
        f"{number.trainer}/{number.name}" if by_trainer and number.trainer else number.name
    )
