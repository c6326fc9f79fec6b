"""What the ranks of one trainer say to each other, and how it travels.

::

    follower --Call--> leader          it waits until its answer comes, and meanwhile
    follower <--Instruction-- leader   does what it is told
    follower --Tell--> leader          at any time, and it goes on

Rank 0 is the leader. It reads what followers say when its own script comes to a call of
the session, so all ranks make the same calls.

A message is msgpack behind its length, with its buffers (raw memory) behind it; lengths are
four bytes, sizes eight, big-endian. Both ends are processes of one trainer, forked from
each other: nothing here is for strangers.

Waits: `Channel.receive`, without a bound; a rank that dies ends all others
(`paceline.launch.processes.group`).
"""

import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, final

import msgspec

from paceline.config import Pace
from paceline.errors import PeerLost
from paceline.ids import TaskKey
from paceline.messages.data import Pull, Pulled, Push, Pushed
from paceline.messages.shared import PartPlan, PartSpec, Refusal, StageSpec, Waiting
from paceline.trainer.verdicts import AfterStep

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
    """What a rank has for a push.

    Attributes:
        records: that it was computed from.
        dense: parameters that have a dense gradient.
        has_rows: there are gradients with rows as well.
        is_refused: it is not to be used.
    """

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
    """`Session.records`."""


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

CALLS: msgspec.msgpack.Decoder[FromFollower] = msgspec.msgpack.Decoder(FromFollower)
INSTRUCTIONS: msgspec.msgpack.Decoder[FromLeader] = msgspec.msgpack.Decoder(FromLeader)

_T = TypeVar("_T")
_HEAD = struct.Struct(">II")  # bytes of the message, number of buffers
_SIZE = struct.Struct(">Q")


class Received(NamedTuple, Generic[_T]):
    """A message and its buffers, each its own memory."""

    message: _T
    buffers: list[bytearray]


@final
class Channel(Generic[_T]):
    """One end of the way between two ranks; ``_T`` is what comes in."""

    def __init__(
        self, end: socket.socket, incoming: "msgspec.msgpack.Decoder[_T]", other: str
    ) -> None:
        """Speak through a connected stream socket.

        Args:
            end: the socket.
            incoming: reads what comes in.
            other: who is at the other end, for errors.
        """
        self._end, self._incoming, self._other = end, incoming, other

    def send(self, message: _Message, buffers: Sequence[Any] = ()) -> None:
        """Send a message with buffers, any contiguous memory.

        Raises:
            PeerLost: the other end has hung up.
        """
        data = msgspec.msgpack.encode(message)
        views = [_flat(buffer) for buffer in buffers]
        sizes = b"".join(_SIZE.pack(view.nbytes) for view in views)
        try:
            self._end.sendall(_HEAD.pack(len(data), len(views)) + sizes + data)
            for view in views:
                self._end.sendall(view)
        except OSError as error:
            raise PeerLost(f"{self._other} has hung up: {error}") from error

    def receive(self) -> Received[_T]:
        """Wait for the next message.

        Raises:
            PeerLost: the other end has hung up.
        """
        length, count = _HEAD.unpack(self._take(_HEAD.size))
        sizes = [_SIZE.unpack(self._take(_SIZE.size))[0] for _ in range(count)]
        message = self._incoming.decode(self._take(length))
        return Received(message, [self._take(size) for size in sizes])

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def _take(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = self._end.recv_into(view)
            except OSError as error:
                raise PeerLost(f"{self._other} has hung up: {error}") from error
            if not count:
                raise PeerLost(f"{self._other} has hung up")
            view = view[count:]
        return data


def _flat(buffer: Any) -> memoryview:  # noqa: ANN401  (whatever lends its memory)
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")
