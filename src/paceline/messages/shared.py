"""What several links carry: specs of parts and stages, leases, answers."""

from typing import Literal, NamedTuple

import msgspec

from paceline.config import Auto, Combine, Pace, RowInit, RowOptimizer
from paceline.ids import TaskKey, Window
from paceline.messages.rotation import RotationSpec
from paceline.messages.waits import Wait

HyperValue = float | int | bool | str | None | tuple[float, ...]
Hyper = dict[str, HyperValue]  # {hyper-parameter: value} of one parameter group


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """Base of all messages: frozen, tagged by its own name."""


class TrainerMessage(Message, frozen=True):
    """What every request of a joined trainer carries."""

    incarnation: int
    timeline: int


class ParameterSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dense parameter: its names (tied parameters have several), shape and dtype.

    ``dtype`` is torch's name without the module, e.g. ``"float32"``; ``group`` is the
    index of its parameter group in the optimizer. With ``has_sparse_gradients`` it is the
    weight of `nn.Embedding(sparse=True)`, shape (rows, dim), and changes by rows.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    group: int = 0
    has_sparse_gradients: bool = False


class OptimizerSpec(msgspec.Struct, frozen=True):
    """A `torch.optim` optimizer by class name, with the values of each group."""

    kind: str
    groups: tuple[Hyper, ...]


class TableSpec(msgspec.Struct, frozen=True):
    """Rows by int64 id: of an embedding, ``dim`` float32 values each; or of the user's own.

    ``optimizer`` says how a row changes; where it is `Combine`, also of which dtype. With
    ``follows`` it is the lazy twin of the part's optimizer as the part began: steps are
    taken with the hyper-parameters that come along with a push.
    """

    name: str
    dim: int
    optimizer: RowOptimizer | Combine
    init: RowInit
    follows: bool = False


class FrozenSpec(msgspec.Struct, frozen=True):
    """A parameter that nothing trains; ``xxh3`` is the xxh3-128 of its bytes (hex)."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    xxh3: str


class Beside(msgspec.Struct, frozen=True):
    """What a model has beside what is trained.

    The bytes of all ``frozen`` parameters, one after the other, are one file that is
    written once and named by every cut; ``name`` is the xxh3-128 of its ``bytes`` bytes,
    ``xxh3`` their xxh3-64 (hex). ``state`` is the name of the tracked object that the
    model's buffers are; ``has_buffers``: it had some when it was shared.
    """

    frozen: tuple[FrozenSpec, ...] = ()
    name: str = ""
    bytes: int = 0
    xxh3: str = ""
    state: str = ""
    has_buffers: bool = False


class PartSpec(msgspec.Struct, frozen=True):
    """What one `Session.share` call shares; ``part`` is the number of the call.

    ``strategy``: what in the trainers replaces some of the pace's answers; empty: nothing.
    ``first_pace`` is the one that scripts share it with, where it has been changed since;
    ``inner`` what trainers step with by themselves, if servers know it: then ``optimizer``
    is that of the servers' outer step. ``auto``: ``pace`` is the step that it is at.
    ``beside``: of the model, if no earlier part says it; None: it was not looked at.
    """

    part: int
    parameters: tuple[ParameterSpec, ...]
    optimizer: OptimizerSpec | None
    tables: tuple[TableSpec, ...]
    pace: Pace
    strategy: str = ""
    first_pace: Pace | None = None
    inner: OptimizerSpec | None = None
    auto: Auto | None = None
    beside: Beside | None = None


class Block(msgspec.Struct, frozen=True):
    """Elements ``start..stop`` (half open, flat) of a part's parameter, in one slot."""

    slot: int
    parameter: int
    start: int
    stop: int


class PartPlan(msgspec.Struct, frozen=True):
    """How a part lies in slots, and the slots on servers; journalled, never re-cut.

    Dense blocks have one slot each. Rows of all tables of the part lie in the
    ``num_row_slots`` slots from ``first_row_slot`` on. A part that has ended keeps its
    values, for who begins again; nobody pushes to it, and no batch is in it.
    """

    spec: PartSpec
    blocks: tuple[Block, ...]
    first_row_slot: int
    num_row_slots: int
    placement: dict[int, str]  # {slot: server id}
    has_ended: bool = False


StageKind = Literal["train", "evaluate", "predict"]


class StageSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One `Session.batches`, `evaluate` or `predict` call: its data and how it is cut.

    Task ``i`` holds positions ``i * task_size .. min((i + 1) * task_size, records)``;
    batches are ``batch_size`` consecutive positions of a task, the last may be short.
    ``tracked`` are the names of the user's own objects whose state goes into cuts, and
    ``averaged`` those of them that are averaged over trainers when the stage ends. With
    ``rotation`` tasks are cells instead, and epochs its rounds. ``loop``: loops of the
    script before this one, if it is shuffled; each has an order of its own.
    """

    stage: int
    records: int
    batch_size: int
    task_size: int
    epochs: int
    shuffle: bool
    seed: int
    fingerprint: str
    tracked: tuple[str, ...] = ()
    averaged: tuple[str, ...] = ()
    kind: StageKind = "train"
    rotation: RotationSpec | None = None
    loop: int = 0

    @property
    def is_training(self) -> bool:
        """Whether its tasks change parameters; otherwise each ends with a result."""
        return self.kind == "train"

    def num_tasks(self) -> int:
        """Tasks of one epoch."""
        if self.rotation is not None:
            return self.rotation.num_cells()
        return -(-self.records // self.task_size)

    def task_records(self, task: int) -> int:
        """Records of a task."""
        if self.rotation is not None:
            return self.rotation.sizes[task]
        return min(self.task_size, self.records - task * self.task_size)

    def num_batches(self, task: int) -> int:
        """Batches of a task; of an empty cell one."""
        return max(-(-self.task_records(task) // self.batch_size), 1)

    def num_batches_in_all(self) -> int:
        """Batches of all epochs."""
        last = self.num_tasks() - 1
        return self.epochs * (last * self.num_batches(0) + self.num_batches(last))

    def batch_records(self, task: int, first: int, last: int) -> int:
        """Records of batches ``first..last`` (both included) of a task."""
        stop = min((last + 1) * self.batch_size, self.task_records(task))
        return stop - first * self.batch_size


class VoidSpan(NamedTuple):
    """Batches ``first..last`` (both included) of a task that have no effect on a part."""

    part: int
    first: int
    last: int


class BlockAt(NamedTuple):
    """A trainer that has left a block last, and the token of its lease then."""

    trainer: str
    token: int


class Lease(msgspec.Struct, frozen=True):
    """The right to work on a task from batch ``first`` on.

    ``token`` grows with every grant of the job. ``edges`` are batches that a window must
    end at. ``rounds`` says at which round of each synchronous part the holder enters.
    ``tracked`` is the number of the tracked state that it loads before; 0: as at the
    beginning; None: it keeps its own; ``is_end``: the last loop ended with it. ``entry`` is
    the token of the lease that the holder has entered with; with that one, ``clock`` is its
    clock and ``slowest`` the least that any has. ``records`` of the job were acknowledged:
    where there are rounds, as of the last one. ``voids`` are batches up to the last edge
    that had no effect before, and are to have none: all others up to there are to have
    theirs. ``is_moved``: somebody else had a cell of the same data part before, or nobody.
    ``block_at``: who may have the rows of its block still, as they are at home.
    """

    token: int
    key: TaskKey
    first: int
    edges: tuple[int, ...] = ()
    rounds: dict[int, int] = {}  # {part: round}
    tracked: int | None = None
    entry: int = 0
    clock: int = 0
    slowest: int = 0
    records: int = 0
    voids: tuple[VoidSpan, ...] = ()
    is_moved: bool = False
    block_at: BlockAt | None = None
    is_end: bool = False


class TrainerClock(msgspec.Struct, frozen=True):
    """Steps that a trainer has finished, as counted since it has entered.

    ``entry`` is the token of the lease that it has entered with: what is said of an earlier
    one is out of date.
    """

    entry: int
    steps: int


class SpentTime(NamedTuple):
    """Seconds of a trainer, by what they went into; each of them only grows.

    ``read`` and ``compute`` are of its loops. ``servers``: asking servers, until they have
    answered. ``others``: asking other trainers, or the coordinator, which answers once they
    are there.
    """

    read: float = 0.0
    compute: float = 0.0
    servers: float = 0.0
    others: float = 0.0


class RefusedPush(msgspec.Struct, frozen=True, omit_defaults=True):
    """A push without effect, whose batches count; ``norm`` is its own if that is why."""

    number: int
    window: Window
    records: int
    reason: str
    norm: float | None = None


class Contribution(msgspec.Struct, frozen=True):
    """One trainer's prepared push in a committed round."""

    trainer: str
    incarnation: int
    number: int
    window: Window
    records: int
    weight: float


RefusalKind = Literal[
    "fenced",  # the sender's incarnation is over: join again
    "timeline",  # the sender's timeline is not the current one: rejoin, pull
    "stale",  # the lease is no longer the sender's
    "lock_lost",  # the lock that the push was made under is no longer the sender's
    "gap",  # the window neither starts behind the mark nor lies below it
    "mismatch",  # differs from what was agreed first
    "invalid",  # malformed; trying again will not help
    "not_ready",  # try again soon
    "broken",  # the job cannot go on, and this is why
]


class Refusal(Message, frozen=True):
    """No, and why; ``timeline`` is the refuser's."""

    kind: RefusalKind
    text: str
    timeline: int = 0


class Done(Message, frozen=True):
    """Yes."""


class AverageShare(NamedTuple):
    """Averaged objects as a server keeps them, and the records that they stand for."""

    number: int
    records: int


class Waiting(Message, frozen=True):
    """Not yet; ask again. The wait is shown to the user.

    ``track``: first keep the state of tracked objects, and say `TrackedKept`. ``buffers``:
    first keep the averaged ones alone, and say `BuffersKept`. ``average``: first average
    these, weighted by records, keep all with the average in it, and say `TrackedKept`.
    ``pauses``: whoever holds a lease gives it back before its next batch. ``is_spent``:
    to ask again is in vain before what is held was stepped. ``is_held``: the journal cannot
    be written, and the question was not looked at.
    """

    wait: Wait
    track: bool = False
    buffers: bool = False
    average: tuple[AverageShare, ...] = ()
    pauses: bool = False
    is_spent: bool = False
    is_held: bool = False
