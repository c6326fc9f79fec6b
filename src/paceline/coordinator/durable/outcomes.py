"""What can happen to the durable state: the lines of the journal.

An outcome says what was decided, never what was asked for; replaying outcomes decides
nothing. What can be asked for anew (ticks, heartbeats, progress) has no outcome.

Pure.
"""

import functools
import operator
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from paceline.ids import TaskKey
from paceline.messages.results import KeptBytes
from paceline.messages.server import FileEntry
from paceline.messages.shared import Contribution, Lease, PartPlan, StageSpec, VoidSpan


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """Base of all outcomes: frozen, tagged by its own name."""


class TrainerJoined(Outcome, frozen=True):
    """A trainer is a member under a new incarnation."""

    trainer: str
    incarnation: int


class ServerJoined(Outcome, frozen=True):
    """A server is a member under a new incarnation."""

    server: str
    incarnation: int


LossKind = Literal[
    "exited", "crashed", "disconnected", "silent", "expired", "unreached", "replaced"
]


class TrainerLost(Outcome, frozen=True):
    """A trainer is dead to the job; its tasks wait until all servers have fenced it.

    ``has_set``: values that its script has changed may be on their way.
    """

    trainer: str
    incarnation: int
    kind: LossKind
    reason: str
    has_set: bool = False


class TrainerLeft(Outcome, frozen=True):
    """A trainer went cleanly; it held no lease.

    ``is_done``: its script has come to its end; otherwise it was told to leave.
    """

    trainer: str
    incarnation: int
    is_done: bool = True


class PartPlanned(Outcome, frozen=True):
    """A part has its blocks, slots and places."""

    plan: PartPlan


class UploadGranted(Outcome, frozen=True):
    """One trainer sends the initial values of a part; its loss lets another do so."""

    part: int
    incarnation: int


class PartReady(Outcome, frozen=True):
    """All servers hold the initial values of a part."""

    part: int


class PartEnded(Outcome, frozen=True):
    """Nobody trains a part any more; its values stay."""

    part: int


class StageRegistered(Outcome, frozen=True):
    """The data of a stage is known."""

    spec: StageSpec


class LeaseGranted(Outcome, frozen=True):
    """A trainer works on a task."""

    lease: Lease
    trainer: str
    incarnation: int


class TaskDone(Outcome, frozen=True):
    """All batches of a task are acknowledged in every part.

    Of an evaluation or prediction: it is worked off, ``result`` is what came of it, and no
    record was trained; a large one lies beside the cuts, and ``kept`` says where.
    """

    key: TaskKey
    records: int
    result: bytes | None = None
    kept: KeptBytes | None = None


class PushLate(Outcome, frozen=True):
    """A push came when its round was closed: it has no effect."""

    part: int
    round: int
    trainer: str
    incarnation: int
    number: int
    records: int


class TaskReturned(Outcome, frozen=True):
    """A task goes back to the front of ``todo``, to go on from ``first``.

    With ``is_carried`` it is a cell whose time was over: its block goes on, and comes back.
    """

    key: TaskKey
    first: int
    edges: tuple[int, ...]
    failed: bool
    reason: str
    voids: tuple[VoidSpan, ...] = ()
    is_carried: bool = False


class TaskFailed(Outcome, frozen=True):
    """A task is given up for this epoch; ``records`` of it had their effect."""

    key: TaskKey
    records: int
    reason: str


class StageValued(Outcome, frozen=True):
    """What the results of a stage come to; they themselves are not needed any more.

    A large value lies beside the cuts: ``kept`` says where, and ``value`` is empty.
    """

    stage: int
    value: bytes
    missing: int
    kept: KeptBytes | None = None


class Resume(NamedTuple):
    """Where a task goes on: from batch ``first``, windows ending at ``edges``.

    ``voids``: see `Lease`.
    """

    key: TaskKey
    first: int
    edges: tuple[int, ...]
    voids: tuple[VoidSpan, ...] = ()


class MarksSettled(Outcome, frozen=True):
    """All servers have fenced a lost incarnation: its tasks may be leased again."""

    incarnation: int
    resumes: tuple[Resume, ...]


class EpochEnded(Outcome, frozen=True):
    """``todo`` and ``pending`` are empty: the next epoch begins."""

    stage: int
    epoch: int


class RoundCommitted(Outcome, frozen=True):
    """Exactly these prepared pushes are one update on every server.

    ``mid_step`` are the incarnations whose step goes on with another part, of all that
    ``ticked`` the round. ``records`` of the job are acknowledged, its own among them.
    ``came_s``: when each contributor came, in seconds since the first of all who did.
    """

    part: int
    round: int
    contributions: tuple[Contribution, ...]
    ticked: tuple[int, ...] = ()
    mid_step: tuple[int, ...] = ()
    records: int = 0
    came_s: tuple[float, ...] = ()


class StepCommitted(Outcome, frozen=True):
    """Exactly these held pushes of a trainer, {part: number}, are one step everywhere."""

    incarnation: int
    pushes: dict[int, int]


class CutBegun(Outcome, frozen=True):
    """A cut has its number, never to be used again."""

    cut: int


class CutCommitted(Outcome, frozen=True):
    """A cut is complete and durable; ``queue`` is the copy taken before the slots.

    ``ends_stage``: the copy is that of the next stage, which begins with this cut.
    ``outer`` are parts whose servers took outer steps on what trainers had come to.
    """

    cut: int
    timeline: int
    folder: str
    queue: bytes
    rounds: dict[int, int]
    files: dict[str, tuple[FileEntry, ...]]
    parts: tuple[int, ...]
    ends_stage: bool
    steps: int = 0
    outer: tuple[int, ...] = ()


class RunBegun(Outcome, frozen=True):
    """A launcher runs the job: for the first time, or again after everybody was gone.

    Again: all go back to ``cut`` (the newest whole one), on a new timeline; ``plans`` are
    its parts, placed on the servers of this run. ``timeline`` 0 is the first time.
    """

    run: str
    timeline: int
    cut: CutCommitted | None
    plans: tuple[PartPlan, ...]


class ServerLost(Outcome, frozen=True):
    """A server is dead to the job: all go back to the last cut, on a new timeline."""

    server: str
    incarnation: int
    kind: LossKind
    reason: str
    timeline: int


class TimelineLeft(Outcome, frozen=True):
    """All go back to the last cut, on a new timeline, though every server is there."""

    timeline: int
    reason: str


class CutSkipped(Outcome, frozen=True):
    """A cut cannot be read: all go back to ``instead``, an older one, on a new timeline.

    ``plans`` are its parts, placed on the servers of this run.
    """

    cut: int
    reason: str
    timeline: int
    instead: CutCommitted
    plans: tuple[PartPlan, ...]


class PaceChanged(Outcome, frozen=True):
    """Parts have another pace from here on, on a new timeline that nobody returns for.

    No lease was held, and all that was acknowledged is applied: servers go on with what
    they have, trainers enter anew. ``before`` and ``paces`` are {part: pace, as it is
    written}; ``without_state`` are parts whose servers have another optimizer than
    before, ``inner_dropped`` those whose trainers drop the state of their own. ``records``
    of the job are acknowledged.
    """

    timeline: int
    plans: tuple[PartPlan, ...]
    before: dict[int, str]
    paces: dict[int, str]
    reason: str
    without_state: tuple[int, ...] = ()
    inner_dropped: tuple[int, ...] = ()
    records: int = 0


class MarksRestored(Outcome, frozen=True):
    """All servers are back at the cut: leases may be granted on this timeline."""

    timeline: int
    resumes: tuple[Resume, ...]


class StateKept(Outcome, frozen=True):
    """This state of tracked objects is that of the moment; a server keeps it."""

    number: int


class TasksCrashed(Outcome, frozen=True):
    """A trainer that was lost with these tasks had crashed: they may be the reason."""

    keys: tuple[TaskKey, ...]


class Scaled(Outcome, frozen=True):
    """The job is to have so many trainers."""

    trainers: int


class OnceClaimed(Outcome, frozen=True):
    """One trainer is the one that does ``name``."""

    name: str
    trainer: str


class StopRequested(Outcome, frozen=True):
    """The script ended the training early, for all."""

    reason: str


class ValuesTaken(Outcome, frozen=True):
    """All servers have the values of the script's n-th `Session.set_values`.

    ``stage``: those that ``setter``, an incarnation, has changed before that stage.
    """

    call: int
    stage: int = -1
    setter: int = 0


class JobBroken(Outcome, frozen=True):
    """The job cannot go on."""

    reason: str


# All of them, as one is read from a journal.
if TYPE_CHECKING:
    AnyOutcome = Outcome
else:
    AnyOutcome = functools.reduce(operator.or_, Outcome.__subclasses__())
