"""The links of the launcher and of observers to the coordinator."""

from typing import Literal

import msgspec

from paceline.config import Pace
from paceline.messages.server import SlotLoad
from paceline.messages.shared import Message, SpentTime, StageKind
from paceline.messages.waits import Wait


class Exited(msgspec.Struct, frozen=True):
    """A process of the job has ended, whatever it was doing; ``code`` < 0 is a signal.

    ``is_crash``: of its own doing (an exception, a segmentation fault), so that what it
    worked on may be the reason; not killed from outside, nor told to leave.
    """

    role: str
    pid: int
    code: int
    is_crash: bool = False


class LauncherReport(Message, frozen=True):
    """Ended processes since the last answered report; answered by `LauncherOrders`.

    While nothing can be journalled it is answered by `JobStatus`, and acknowledged is none.

    ``finishing``: the job is over, servers may leave. ``saving``: the run ends early, and
    a cut is wanted that began after the first report that says so. ``interrupted``: the
    launcher knows that the run is to end early. ``no_room``: which roles no machine has
    room for, since when and why, in words.
    """

    exits: tuple[Exited, ...] = ()
    finishing: bool = False
    saving: bool = False
    interrupted: bool = False
    no_room: str = ""


class LauncherOrders(Message, frozen=True):
    """``replace``: roles that are dead to the job, with the pid of their process.

    That very process must be gone before a new one is started; a role that runs
    under another pid has been replaced already. Those of ``unreached`` are to be started
    on another host, if there is one: from theirs others are not reached. ``trainers``: how
    many there are to be; 0 if nobody has changed it. ``is_saved``: the cut that ``saving``
    asked for is committed, or there is nothing that could be saved. ``is_interrupted``:
    an operator has asked for it (`Interrupt`).
    """

    status: "JobStatus"
    replace: dict[str, int] = msgspec.field(default_factory=dict)  # {role id: pid}
    unreached: dict[str, str] = msgspec.field(default_factory=dict)  # {role id: why}
    trainers: int = 0
    is_saved: bool = False
    is_interrupted: bool = False


class Scale(Message, frozen=True):
    """Let the job have so many trainers; answered by `Done`, or refused."""

    trainers: int


class ChangePace(Message, frozen=True):
    """Let a part have another pace, or all of them, if ``part`` is empty.

    It is named by its number, or by a table or parameter in it. Answered by `Done` when it
    is so, by `Waiting` with what is waited for, or refused.
    """

    pace: Pace  # the new one
    part: str = ""


class TakeCut(Message, frozen=True):
    """Let a cut be taken that begins after ``wish`` was first said.

    Who asks again says the same ``wish``. Answered by `Saved` when that cut is committed,
    by `Waiting` with what is waited for, or refused.
    """

    wish: str


class Interrupt(Message, frozen=True):
    """Let the run end early, as Ctrl-C at its launcher would: saved, and to be resumed.

    Answered by `Done` when the launcher knows it, by `Waiting` until then, or refused.
    """


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
    """One process of the job; ``wait`` is what it waits for, if it does.

    ``spent``: what a trainer's time goes into. ``load``: of a server's slots; ``counters``:
    its share of those of the job.
    """

    role: str
    id: str
    incarnation: int
    pid: int
    host: str
    address: str
    state: str
    clock: int
    records: int
    wait: Wait | None = None
    spent: SpentTime | None = None
    load: tuple[SlotLoad, ...] = ()
    counters: dict[str, int] = msgspec.field(default_factory=dict)


class Trouble(msgspec.Struct, frozen=True):
    """Something cannot be written; it is tried again.

    ``waited_s``: for how long the job has stood still for it; None: it goes on meanwhile.
    """

    kind: Literal["journal", "checkpoint"]
    place: str  # the folder or URL where it is to lie
    text: str  # the reason, since when, and what is tried, in words
    waited_s: float | None


class Trained(msgspec.Struct, frozen=True):
    """How long a run's loops over batches have trained, as far as a coordinator knows."""

    since_s: float  # so long ago the first of them had its first lease
    seconds: float  # of all, each from its first lease to its last acknowledged record
    records: int  # those of the job when the first began: of runs before, if it was resumed


class Resumed(msgspec.Struct, frozen=True):
    """Where a run went on with its job.

    ``passed_over``: why not from each newer or foreign cut, the first of them.
    """

    cut: int | None  # the checkpoint; None: there was none, and the job begins anew
    records: int  # acknowledged records of the job in it
    created: float  # when it was taken, in seconds since 1970
    passed_over: tuple[str, ...]


class JobStatus(Message, frozen=True):
    """How the job stands; ``paceline status --json`` prints it.

    ``epochs`` are the finished ones; ``stopped`` is the reason of a stop;
    ``error`` the reason why the job cannot go on. ``kind`` says what the current stage's
    tasks are for; ``records`` and ``epochs`` count training alone. ``pace`` is that of all
    parts, or says that of each; ``changing`` what a change of it waits for. ``left_out``
    counts the records of loops that all trainers have gone on from, the first of them in
    ``left_epoch``. ``stage_records`` of ``stage_total`` are worked off, if the stage does
    not train. ``resumed`` says where this run went on, if it did and the coordinator has
    not begun again since.
    ``trouble``: what cannot be written just now; ``events_lost``: happenings that
    ``events.jsonl`` lacks. ``no_room``: which roles wait for a machine, as the launcher
    says. ``has_trainers``: some trainer has called `paceline.connect`.
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
    kind: StageKind = "train"
    changing: str | None = None
    left_out: int = 0
    left_epoch: int = 0
    trained: Trained | None = None
    stage_records: int = 0
    stage_total: int = 0
    resumed: Resumed | None = None
    trouble: Trouble | None = None
    events_lost: int = 0
    no_room: str = ""
    has_trainers: bool = True

    @property
    def epoch(self) -> int:
        """Which epoch of the job it is, from 1, over all loops; between two, the last."""
        queue = self.queue
        is_begun = queue.todo or queue.pending or queue.done or queue.failed
        trains = self.kind == "train" and is_begun
        return self.epochs + 1 if trains else max(1, self.epochs)
