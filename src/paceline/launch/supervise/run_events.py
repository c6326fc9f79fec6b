"""What happens to a run's processes, and what the launcher may decide.

Pure.
"""

from typing import NamedTuple

from paceline.launch.supervise.failure import Failure
from paceline.messages.watching import Exited, JobStatus, LauncherOrders


class Started(NamedTuple):
    """A process of a role runs."""

    role: str
    pid: int


class NoRoom(NamedTuple):
    """No machine has room for a role's process: it was not started."""

    role: str


class ScriptFailed(NamedTuple):
    """A trainer ended by its script's doing; ``said`` is that in words.

    ``failure`` is what the script has told of it, if it could.
    """

    exited: Exited
    failure: Failure | None
    said: str


class HostLost(NamedTuple):
    """A host is lost, and with it these processes: one event, and nobody's failure."""

    host: str
    exits: tuple[Exited, ...]


class CoordinatorSilent(NamedTuple):
    """The coordinator was asked and did not answer.

    ``signs`` of its life grow with whatever its process does; None: not known.
    """

    signs: int | None = None


class RunInterrupted(NamedTuple):
    """The user wants the run to end, in good order."""


class Start(NamedTuple):
    """Start a process of this role; none of it is left.

    ``is_elsewhere``: not on the host where the last one was, if there is another.
    """

    role: str
    reason: str
    is_elsewhere: bool = False


class Kill(NamedTuple):
    """Kill this role's process; its end is reported like any other."""

    role: str
    reason: str


class Retire(NamedTuple):
    """Tell a trainer to leave; its end is reported like any other."""

    role: str
    reason: str


class GiveUp(NamedTuple):
    """The job has failed; ``role`` is whose death was the last, if one was.

    ``is_by_disk``: there was no space to go on; with space, --resume does.
    """

    role: str | None
    reason: str
    is_by_disk: bool = False


class Finish(NamedTuple):
    """All trainers are done and this is the coordinator's last word."""

    status: JobStatus


class EndInterrupted(NamedTuple):
    """An interrupted run may end now."""

    reason: str


# A `JobStatus` alone: the coordinator answers, and nothing can be journalled.
Happening = (
    Started
    | NoRoom
    | Exited
    | ScriptFailed
    | HostLost
    | LauncherOrders
    | CoordinatorSilent
    | JobStatus
    | RunInterrupted
    | None
)
Decision = Start | Kill | Retire | GiveUp | Finish | EndInterrupted
