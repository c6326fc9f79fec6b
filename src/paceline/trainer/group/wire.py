"""What the ranks of one trainer say to each other, and how it travels.

::

    follower --Call--> leader          it waits until its answer comes, and meanwhile
    follower <--Instruction-- leader   does what it is told
    follower --Tell--> leader          at any time, and it goes on

Rank 0 is the leader. It reads what followers say when its own script comes to a call of
the session, so all ranks make the same calls.

Messages travel with buffers (raw memory) over a `FrameChannel`. Both ends are processes of
one trainer, forked from each other: nothing here is for strangers, and no limit is meant
to be met.

Waits for nothing; its channels do, without a bound: a rank that dies ends all others
(`paceline.launch.processes.group`).
"""

import socket
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from paceline.config import Pace
from paceline.ids import TaskKey
from paceline.messages.data import Pull, Pulled, Push, Pushed
from paceline.messages.shared import PartPlan, PartSpec, Refusal, StageSpec, Waiting
from paceline.trainer.verdicts import AfterStep
from paceline.transport.frames import MAX_BUFFERS, Limits

Scaled = Literal["never", "unscaled", "not finite"]


class GroupPlace(NamedTuple):
    """Where a process stands in its trainer.

    Attributes:
        role: of the trainer.
        number: its rank; 0 leads.
        size: how many there are.
        channels: of the leader to ranks 1, 2 ...; of a follower to its leader.
        rendezvous: a file that does not exist yet, where they find each other.
        pace: of the job.
        lost: what the leader does when a rank has hung up; does not return.
    """

    role: str
    number: int
    size: int
    channels: tuple[socket.socket, ...]
    rendezvous: str
    pace: Pace
    lost: Callable[[int], object] = int


# ------------------------------------------------------------ follower to leader


class _Message(msgspec.Struct, frozen=True, tag=True):
    """Anything that is said."""


class GroupShare(_Message, frozen=True):
    """`Session.share` of the next part."""

    spec: PartSpec


class Begin(_Message, frozen=True):
    """The next stage of the script; ``gpus``: {part: where its parameters lie}."""

    spec: StageSpec
    gpus: dict[int, str] = {}


class Next(_Message, frozen=True):
    """The loop wants its next batch."""


class LeaveLoop(_Message, frozen=True):
    """The loop was left early."""


class Have(_Message, frozen=True):
    """The batch that was dealt has been read; ``error``: it cannot be."""

    error: str | None


class Offered(_Message, frozen=True):
    """What a rank has for a push, from so many records; ``dense``: parameters with such."""

    records: int
    dense: tuple[int, ...]
    has_rows: bool
    is_refused: bool


class Step(_Message, frozen=True):
    """A step of several parts; what a `GradScaler` said, and if all is finite here.

    ``offered``: {part: what there is for its push, with all of this step}.
    """

    offered: dict[int, Offered]
    scaled: Scaled
    is_finite: bool


class Lookup(_Message, frozen=True):
    """Rows of a table. Buffer: distinct ids, int64."""

    part: int
    table: str
    create: bool


class Reduced(_Message, frozen=True):
    """Sums of this rank's share are here, and its gradients with rows.

    ``is_finite``: all sums are, and can be coded. Buffers: for each of ``sparse`` its row
    numbers (int64) and values; for each of ``tables`` ids (int64) and gradients (float32).
    """

    is_finite: bool
    sparse: tuple[int, ...]
    tables: tuple[str, ...]


class GroupCarried(_Message, frozen=True):
    """What has become of an `Errand`: a server's reply, or why there is none."""

    number: int
    reply: Pushed | Pulled | Waiting | Refusal | None
    lost: str = ""


class GroupAskRecords(_Message, frozen=True):
    """`Session.records`, or `Session.num_trainers`."""

    of_trainers: bool = False


class GroupSave(_Message, frozen=True):
    """The n-th `Session.save` of the script."""

    number: int


class Bye(_Message, frozen=True):
    """The session is closed."""


class Tell(_Message, frozen=True):
    """Said without waiting: numbers for the log, a reason to stop or to leave."""

    numbers: dict[str, float] = {}
    stop: str | None = None
    leaving: str | None = None


# ------------------------------------------------------------ leader to follower


class _Told(_Message, frozen=True, kw_only=True, omit_defaults=True):
    """Anything that the leader says; ``stepped``: steps that are over, which come first."""

    stepped: tuple[AfterStep, ...] = ()


class GroupShared(_Told, frozen=True):
    """The part is shared."""

    plan: PartPlan


class Dealt(_Told, frozen=True):
    """Read this batch, say if it can be read, and wait for `Go`.

    ``trained``: records of the job, as of the last round or push.
    """

    key: TaskKey
    batch: int
    records: int
    trained: int


class Go(_Told, frozen=True):
    """The batch that was read is the user's now, or it is not."""

    is_delivered: bool


class GroupOver(_Told, frozen=True):
    """The loop is over."""


class GroupLeave(_Told, frozen=True):
    """The trainer was told to leave."""

    reason: str


class GroupOffer(_Told, frozen=True):
    """Say what there is for a push of a part: `Offered`."""

    part: int
    with_step: bool
    only_fresh: bool


class Reduce(_Told, frozen=True):
    """Add gradients up over all ranks: those of ``dense``, times ``weight``.

    With ``is_shared`` each rank gets its share of the sums; otherwise the leader gets all.
    Then, or with rows to bring, `Reduced` answers.
    """

    part: int
    with_step: bool
    only_fresh: bool
    dense: tuple[int, ...]
    weight: float
    is_shared: bool
    brings_rows: bool


class Errand(_Told, frozen=True):
    """Ask a server with the numbers of this rank's share, and say what it says.

    A `Push` names the blocks that it is to carry; behind them come the buffers that are
    with this message. `GroupCarried` answers, at once.
    """

    number: int
    server: str
    address: str
    message: Push | Pull


class Refresh(_Told, frozen=True):
    """Parameters of these parts have new values, which go to all ranks.

    Of ``shared`` parts each rank has those of its share, of the others the leader has all.
    """

    parts: tuple[int, ...]
    shared: tuple[int, ...] = ()


class BetweenGpus(_Told, frozen=True):
    """Dense numbers of these parts, and of no others, travel from GPU to GPU."""

    parts: tuple[int, ...]


class GroupForget(_Told, frozen=True):
    """The trainer has joined anew: what was computed before belongs to nothing."""


class GroupLoad(_Told, frozen=True):
    """Tracked objects have this state. Buffer: of `Tracker.encode`."""


class GroupDone(_Told, frozen=True):
    """The call is over, once new values are here; ``number`` answers it.

    Buffers: what the call says.
    """

    number: int = 0
    refresh: Refresh | None = None


class GroupFailed(_Told, frozen=True):
    """The call has failed in the leader."""

    error: str  # name of its class
    text: str


Call = (
    GroupShare
    | Begin
    | Next
    | LeaveLoop
    | Step
    | Lookup
    | GroupAskRecords
    | GroupSave
    | Bye
)
FromFollower = Call | Have | Offered | Reduced | GroupCarried | Tell
Answer = GroupShared | Go | GroupOver | GroupLeave | GroupDone | GroupFailed
Instruction = GroupOffer | Reduce | Errand | Refresh | BetweenGpus | GroupForget | GroupLoad
FromLeader = Answer | Dealt | Instruction

LIMITS = Limits(header_bytes=16 << 20, frame_bytes=1 << 40, num_buffers=MAX_BUFFERS)
CALLS: msgspec.msgpack.Decoder[FromFollower] = msgspec.msgpack.Decoder(FromFollower)
INSTRUCTIONS: msgspec.msgpack.Decoder[FromLeader] = msgspec.msgpack.Decoder(FromLeader)
