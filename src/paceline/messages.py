"""Every message on the wire: one tagged union per link.

::

    trainer  --TrainerRequest-->  coordinator  --TrainerReply-->   trainer
    server   --ServerReport--->   coordinator  --Orders-->         server
    launcher --LauncherReport-->  coordinator  --LauncherOrders--> launcher
    observer --AskStatus------->  coordinator  --JobStatus-->      observer
    trainer  --DataRequest----->  server       --DataReply-->      trainer

All links are request and reply; whoever waits, asks, and its question may be *parked*
until there is an answer or a bound is reached (`Waiting`, with the reason). A server's
report says how things stand and the orders in the reply say what to do next: orders are
computed anew from the coordinator's state and the report, so losing, repeating or
delaying either changes nothing.

Tensors are not in these structs: a frame carries them as raw buffers behind the message,
in the order that the message's docstring states.
"""

from typing import Literal

import msgspec

from paceline.config import Pace, RowInit, RowOptimizer
from paceline.ids import TaskKey, Window

HyperValue = float | int | bool | str | None | tuple[float, ...]
Hyper = dict[str, HyperValue]  # {hyper-parameter: value} of one parameter group


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Base of all messages: frozen, tagged by its own name."""


# ---------------------------------------------------------------- what is shared


class ParameterSpec(msgspec.Struct, frozen=True):
    """A dense parameter: its names (tied parameters have several), shape and dtype.

    ``dtype`` is torch's name without the module, e.g. ``"float32"``; ``group`` is the
    index of its parameter group in the optimizer.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    group: int = 0


class OptimizerSpec(msgspec.Struct, frozen=True):
    """A `torch.optim` optimizer by class name, with the values of each group."""

    kind: str
    groups: tuple[Hyper, ...]


class TableSpec(msgspec.Struct, frozen=True):
    """A sparse parameter: int64 id -> row of ``dim`` float32 values."""

    name: str
    dim: int
    optimizer: RowOptimizer
    init: RowInit


class PartSpec(msgspec.Struct, frozen=True):
    """What one `Session.share` call shares; ``part`` is the number of the call."""

    part: int
    parameters: tuple[ParameterSpec, ...]
    optimizer: OptimizerSpec | None
    tables: tuple[TableSpec, ...]
    pace: Pace


class Block(msgspec.Struct, frozen=True):
    """Elements ``start..stop`` (half open, flat) of a part's parameter, in one slot."""

    slot: int
    parameter: int
    start: int
    stop: int


class PartPlan(msgspec.Struct, frozen=True):
    """How a part lies in slots, and the slots on servers; journalled, never re-cut.

    Dense blocks have one slot each. Rows of all tables of the part lie in the
    ``num_row_slots`` slots from ``first_row_slot`` on.
    """

    spec: PartSpec
    blocks: tuple[Block, ...]
    first_row_slot: int
    num_row_slots: int
    placement: dict[int, str]  # {slot: server id}


class StageSpec(msgspec.Struct, frozen=True):
    """One `Session.batches` call: its data and how it is cut.

    Task ``i`` holds positions ``i * task_size .. min((i + 1) * task_size, records)``;
    batches are ``batch_size`` consecutive positions of a task, the last may be short.
    """

    stage: int
    records: int
    batch_size: int
    task_size: int
    epochs: int
    shuffle: bool
    seed: int
    fingerprint: str

    def num_tasks(self) -> int:
        """Tasks of one epoch."""
        return -(-self.records // self.task_size)

    def task_records(self, task: int) -> int:
        """Records of a task."""
        return min(self.task_size, self.records - task * self.task_size)

    def num_batches(self, task: int) -> int:
        """Batches of a task."""
        return -(-self.task_records(task) // self.batch_size)

    def batch_records(self, task: int, first: int, last: int) -> int:
        """Records of batches ``first..last`` (both included) of a task."""
        stop = min((last + 1) * self.batch_size, self.task_records(task))
        return stop - first * self.batch_size


class Lease(msgspec.Struct, frozen=True):
    """The right to work on a task from batch ``first`` on.

    ``token`` grows with every grant of the job. ``edges`` are batches that a window must
    end at. ``rounds`` says at which round of each synchronous part the holder enters.
    """

    token: int
    key: TaskKey
    first: int
    edges: tuple[int, ...] = ()
    rounds: dict[int, int] = {}  # {part: round}


class Contribution(msgspec.Struct, frozen=True):
    """One trainer's prepared push in a committed round."""

    trainer: str
    incarnation: int
    number: int
    window: Window
    records: int
    weight: float


# ---------------------------------------------------------------- answers of all links

RefusalKind = Literal[
    "fenced",  # the sender's incarnation is over: join again
    "timeline",  # the sender's timeline is not the current one: rejoin, pull
    "stale",  # the lease is no longer the sender's
    "gap",  # the window neither starts behind the mark nor lies below it
    "mismatch",  # differs from what was agreed first
    "invalid",  # malformed; trying again will not help
    "not_ready",  # try again soon
]


class Refusal(Message, frozen=True):
    """No, and why; ``timeline`` is the refuser's."""

    kind: RefusalKind
    text: str
    timeline: int = 0


class Done(Message, frozen=True):
    """Yes."""


class Waiting(Message, frozen=True):
    """Not yet; ask again. The reason is shown to the user."""

    reason: str


# ---------------------------------------------------------------- trainer -> coordinator


class JoinTrainer(Message, frozen=True):
    """Become a member, or learn how things stand as the member ``previous``."""

    trainer: str
    pid: int
    host: str
    previous: int = 0


class Joined(Message, frozen=True):
    """``incarnation`` equals ``previous`` if that is still a member."""

    incarnation: int
    timeline: int
    generation: int
    pace: Pace
    seed: int
    servers: dict[str, str]  # {server id: address}
    beat_s: float


class TrainerMessage(Message, frozen=True):
    """What every request of a joined trainer carries."""

    incarnation: int
    timeline: int


class SharePart(TrainerMessage, frozen=True):
    """Ask for the plan of a part; the first to ask describes it for all.

    Answered by `PartAnswer`, or `Waiting` while servers or the uploader are awaited.
    """

    spec: PartSpec


class PartAnswer(Message, frozen=True):
    """The plan; with ``upload`` the asker must send the values and say `PartUploaded`."""

    plan: PartPlan
    upload: bool


class PartUploaded(TrainerMessage, frozen=True):
    """All servers have acknowledged the initial values of a part."""

    part: int


class BeginStage(TrainerMessage, frozen=True):
    """Register the data of a stage; a repeat must say the same."""

    spec: StageSpec


class AskLease(TrainerMessage, frozen=True):
    """Ask for work. ``held`` are the leases that the trainer knows it holds.

    Answered by `Granted`, `Waiting`, `StageOver`. A lease granted to this incarnation
    and missing from ``held`` is granted again: a lost reply costs nothing. A held one
    comes with its last batch acknowledged in every part, for a coordinator that has
    restarted since.
    """

    stage: int
    held: tuple[tuple[int, int], ...] = ()  # (token, last acknowledged batch)


class Granted(Message, frozen=True):
    """A lease."""

    lease: Lease


class StageOver(Message, frozen=True):
    """The stage has ended for all; ``stopped`` carries the reason of an early stop."""

    stopped: str | None = None


class Tick(TrainerMessage, frozen=True):
    """One push is acknowledged by all servers: its window has its effect, or is prepared.

    With ``round``, answered by `Ticked` once that round is committed, or `Waiting`.
    With ``next_lease``, a task finished by this tick is followed by the next one at once.
    """

    part: int
    number: int
    window: Window
    records: int
    round: int | None = None
    next_lease: bool = False


class Ticked(Message, frozen=True):
    """The tick counts. ``stopped``: the script's `Session.stop` was called somewhere."""

    lease: Lease | None = None
    stopped: str | None = None


class HandBack(TrainerMessage, frozen=True):
    """Give leases back (``break``, leaving); nothing of them is in flight.

    ``acked`` are the last acknowledged batches, in the order of ``tokens``.
    """

    tokens: tuple[int, ...]
    acked: tuple[int, ...]


class FailTask(TrainerMessage, frozen=True):
    """A task cannot be worked on (its data cannot be read); nothing of it is in flight."""

    token: int
    acked: int
    error: str


class Beat(TrainerMessage, frozen=True):
    """A sign of life between other requests, with what `paceline status` shows."""

    clock: int
    state: str
    waiting_for: str = ""


class Beaten(Message, frozen=True):
    """How things stand; a trainer that reads another timeline than its own rejoins."""

    timeline: int
    stopped: str | None = None


class ClaimOnce(TrainerMessage, frozen=True):
    """Ask to be the one trainer that does ``name``; answered by `Claimed`."""

    name: str


class Claimed(Message, frozen=True):
    """Whether the asker is the one."""

    mine: bool


class Stop(TrainerMessage, frozen=True):
    """Early stop for all trainers."""

    reason: str


class Log(TrainerMessage, frozen=True):
    """Numbers of the user; non-finite ones are None."""

    numbers: dict[str, float | None]


class Save(TrainerMessage, frozen=True):
    """Ask for a cut begun after this request; ``number`` makes a retry the same request.

    Answered by `Saved`, or `Waiting`.
    """

    number: int


class Saved(Message, frozen=True):
    """The cut is committed."""

    cut: int


class Leave(TrainerMessage, frozen=True):
    """The trainer goes, cleanly: it holds no lease."""


class AskRecords(TrainerMessage, frozen=True):
    """How many records are counted so far; answered by `Records`."""


class Records(Message, frozen=True):
    """Acknowledged records of the job, by the queue's own state."""

    records: int


TrainerRequest = (
    JoinTrainer
    | SharePart
    | PartUploaded
    | BeginStage
    | AskLease
    | Tick
    | HandBack
    | FailTask
    | Beat
    | ClaimOnce
    | Stop
    | Log
    | Save
    | Leave
    | AskRecords
)
TrainerReply = (
    Joined
    | PartAnswer
    | Granted
    | StageOver
    | Ticked
    | Beaten
    | Claimed
    | Saved
    | Records
    | Done
    | Waiting
    | Refusal
)


# ---------------------------------------------------------------- server -> coordinator


class MarkEntry(msgspec.Struct, frozen=True):
    """The distinct marks that a server's slots hold for a task, ascending."""

    key: TaskKey
    marks: tuple[int, ...]


class FenceReport(Message, frozen=True):
    """An incarnation is fenced here; an entry for every task that the order named.

    An entry's marks include -1 if some slot has none, and are empty if the server has no
    slots.
    """

    incarnation: int
    marks: tuple[MarkEntry, ...]


class MarksReport(Message, frozen=True):
    """All marks of this server, as restored from the cut."""

    timeline: int
    has_slots: bool
    marks: tuple[MarkEntry, ...]


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a cut: name inside its folder, size and xxh3-64 of its bytes (hex)."""

    name: str
    bytes: int
    xxh3: str


class CutReport(Message, frozen=True):
    """This server's share of a cut is written and durable; or failed, with the reason."""

    cut: int
    files: tuple[FileEntry, ...]
    error: str | None = None


ServerAnswer = FenceReport | MarksReport | CutReport


class PartReport(msgspec.Struct, frozen=True):
    """How a part stands on a server: last applied round, and updates applied so far."""

    applied_round: int
    version: int


class ServerReport(Message, frozen=True):
    """How things stand at a server; ``answers`` are results of the last orders.

    ``incarnation`` 0 asks to join. Answered by `Orders` at once when there are any,
    otherwise parked for a while; silence of a reporting server means its death.
    """

    server: str
    incarnation: int
    timeline: int
    address: str
    pid: int
    host: str
    ready: bool
    parts: dict[int, PartReport] = {}
    answers: tuple[ServerAnswer, ...] = ()
    forgotten_cut: int = 0
    counters: dict[str, int] = {}  # {name: count}, e.g. duplicates, prepared_dropped


class CreatePart(Message, frozen=True):
    """Make the slots of a part that are placed on this server."""

    plan: PartPlan


class CommitRound(Message, frozen=True):
    """Apply exactly these prepared pushes, with these weights, as one update."""

    part: int
    round: int
    contributions: tuple[Contribution, ...]


class Fence(Message, frozen=True):
    """Refuse an incarnation from now on and report its tasks' marks.

    Its prepared pushes of rounds beyond ``rounds`` are dropped; the report waits until
    the rounds up to there are applied.
    """

    incarnation: int
    keys: tuple[TaskKey, ...]
    rounds: dict[int, int]  # {part: last committed round}


class Snapshot(Message, frozen=True):
    """Write this server's share of a cut into ``folder``, at exactly these rounds."""

    cut: int
    folder: str
    rounds: dict[int, int]


class Restore(Message, frozen=True):
    """Drop everything, load a cut (with no ``folder``: start empty), enter a timeline."""

    timeline: int
    cut: int
    folder: str | None
    plans: tuple[PartPlan, ...]
    files: tuple[FileEntry, ...]
    rounds: dict[int, int]


class SendMarks(Message, frozen=True):
    """Answer with a `MarksReport`."""


class Forget(Message, frozen=True):
    """A committed cut shows these tasks done: their marks may go.

    All epochs before ``(stage, epoch)`` are done, and ``tasks`` of that epoch.
    """

    cut: int
    stage: int
    epoch: int
    tasks: tuple[int, ...]


class ShutDown(Message, frozen=True):
    """The job is over, or the server's incarnation is: exit."""

    reason: str


Order = (
    CreatePart | CommitRound | Fence | Snapshot | Restore | SendMarks | Forget | ShutDown
)


class Orders(Message, frozen=True):
    """What a server does next, in this order."""

    incarnation: int
    orders: tuple[Order, ...] = ()


# ---------------------------------------------------------------- launcher, observers


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
    replace: dict[str, int] = {}  # {server id: pid}


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


# ---------------------------------------------------------------- trainer -> server


class Upload(TrainerMessage, frozen=True):
    """Initial values of a part's dense slots. Buffers: one per slot, in order."""

    part: int
    slots: tuple[int, ...]


class RowSlots(msgspec.Struct, frozen=True):
    """Ids of one table grouped by slot: ``counts[i]`` ids belong to ``slots[i]``."""

    table: str
    slots: tuple[int, ...]
    counts: tuple[int, ...]


class Push(TrainerMessage, frozen=True):
    """Gradients computed from a window; goes to every server, empty if need be.

    ``number`` grows by one with every push of this incarnation to this part. Without
    ``round`` it is applied at once and answered by `Pushed`; with it, it is prepared.

    Buffers: the gradient of each of ``blocks`` (slots whose parameter has one), then per
    entry of ``rows`` the int64 ids and the float32 gradients ``(ids, dim)``.
    """

    part: int
    number: int
    window: Window
    records: int
    round: int | None = None
    hyper: tuple[Hyper, ...] = ()
    blocks: tuple[int, ...] = ()
    rows: tuple[RowSlots, ...] = ()


class Pushed(Message, frozen=True):
    """``applied``, ``prepared``, or ``duplicate``: the window had its effect before."""

    verdict: Literal["applied", "prepared", "duplicate"]
    version: int


class Pull(TrainerMessage, frozen=True):
    """Fetch the dense slots of a part on this server, in ascending slot order.

    With ``at_round``, parked until that round is applied here.
    """

    part: int
    at_round: int = 0


class Pulled(Message, frozen=True):
    """Buffers: one per slot, ascending."""

    slots: tuple[int, ...]
    version: int
    round: int


class PullRows(TrainerMessage, frozen=True):
    """Fetch rows. Buffers: per entry of ``rows`` the int64 ids.

    With ``create``, unseen ids get their initial row; otherwise they read as it and
    nothing is made.
    """

    part: int
    rows: tuple[RowSlots, ...]
    create: bool
    at_round: int = 0


class PulledRows(Message, frozen=True):
    """Buffers: per entry of the request the float32 values ``(ids, dim)``."""

    version: int
    round: int


DataRequest = Upload | Push | Pull | PullRows
DataReply = Done | Pushed | Pulled | PulledRows | Waiting | Refusal
