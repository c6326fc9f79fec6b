"""The links of the launcher and of observers to the coordinator."""

import msgspec

from paceline.messages.shared import (
    Message,
)


class Exited(msgspec.Struct, frozen=True):
    """A process of the job has ended, whatever it was doing; ``code`` < 0 is a signal."""

    role: str
    pid: int
    code: int


class LauncherReport(Message, frozen=True):
    """Ended processes since the last answered report; answered by `LauncherOrders`."""

    exits: tuple[Exited, ...] = ()
    finishing: bool = False


class LauncherOrders(Message, frozen=True):
    """``replace``: servers that are dead to the job, with the pid of their process.

    That very process must be gone before a new one is started; a server that runs
    under another pid has been replaced already.
    """

    status: "JobStatus"
    replace: dict[str, int] = msgspec.field(default_factory=dict)  # {server id: pid}


class AskStatus(Message, frozen=True):
    """Ask how the job stands."""


class QueueStatus(msgspec.Struct, frozen=True):
    """Tasks of the current epoch by queue; ``epoch`` counts from 0."""

    todo: int
    pending: int
    done: int
    failed: int
    epoch: int


class ProcessStatus(msgspec.Struct, frozen=True):
    """One process of the job."""

    role: str
    id: str
    incarnation: int
    pid: int
    host: str
    address: str
    state: str
    waiting_for: str
    clock: int
    records: int


class JobStatus(Message, frozen=True):
    """How the job stands; ``paceline status --json`` prints it.

    ``epochs`` are the finished ones; ``stopped`` is the reason of an early stop;
    ``error`` the reason why the job cannot go on.
    """

    state: str
    queue: QueueStatus
    pace: str
    processes: tuple[ProcessStatus, ...]
    epochs: int
    records: int
    tasks_done: int
    tasks_failed: int
    steps: int
    metrics: dict[str, float | None]
    total_records: int
    timeline: int
    cut: int
    counters: dict[str, int]
    stopped: str | None = None
    error: str | None = None
