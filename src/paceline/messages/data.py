"""The link ``trainer --DataRequest--> server``: tensors are buffers behind a message."""

from typing import Literal

import msgspec

from paceline.ids import Window
from paceline.messages.locking import ApplyStep, KeepLocks, Lock, Locked, RowSlots, Unlock
from paceline.messages.shared import (
    AverageShare,
    Beside,
    Done,
    Hyper,
    Message,
    Refusal,
    TrainerMessage,
    Waiting,
)
from paceline.messages.values import SetValues


class Upload(TrainerMessage, frozen=True):
    """Initial values of a part's dense slots. Buffers: one per slot, in order."""

    part: int
    slots: tuple[int, ...]


class KeepFrozen(TrainerMessage, frozen=True):
    """A piece of what a part's model has that never changes; the last lets it be written.

    Pieces are bytes ``first..stop`` of all frozen parameters, and come in their order.
    Buffers: what of each parameter lies in there.
    """

    part: int
    beside: Beside
    first: int
    stop: int


class Push(TrainerMessage, frozen=True):
    """Gradients computed from a window; goes to every server, empty if need be.

    ``number`` grows by one with every push of this incarnation to this part. Without
    ``round`` it is applied at once and answered by `Pushed`; with it, it is prepared.
    With ``is_lent`` its buffers stay as they are until the round is applied here.
    ``early`` names gradients that a `PushEarly` has brought already; a server that has not
    all of them answers `Waiting`, and is asked again with everything. Without a round, rows
    may be asked for ``behind`` it: they are read when it is acknowledged, and come with the
    acknowledgement. ``base`` is the receiver's version of the part in the values that the
    gradients were computed on. With ``is_void`` it has no numbers and no effect, and its
    batches count. With ``is_judged`` the receiver decides if it is too old. With ``token``
    its rows are written under that lock of the receiver's, which is let go with it. With
    ``is_held`` it waits for an `ApplyStep`; or its step has its effect at once, if it is
    the last one of a step that ``completes`` here: {part: number} of all its pushes.
    ``stepped`` are the tables that count their steps and have a gradient in this push, on
    whichever server. ``together`` says how many of ``blocks``, all of one dtype, share a
    buffer, in turn; without it each has its own.

    Buffers: the gradient of each of ``blocks`` (slots whose parameter has one); then for
    each of ``sparse_blocks`` (slots whose parameter has a sparse one) the int64 numbers of
    its rows, distinct, ascending, counted from the block's first, and the gradients
    ``(rows, dim)``; then per entry of ``rows`` the int64 ids and the float32 gradients
    ``(ids, dim)``; then the values that the gradient of each of ``then`` was computed on;
    then those of ``behind``. A table of the user's own has values of its dtype in the place
    of gradients; then the window may be empty: the push belongs to no batch, and its number
    alone tells it from others.
    """

    part: int
    number: int
    window: Window
    records: int
    round: int | None = None
    is_lent: bool = False
    hyper: tuple[Hyper, ...] = ()
    blocks: tuple[int, ...] = ()
    sparse_blocks: tuple[int, ...] = ()
    rows: tuple[RowSlots, ...] = ()
    early: dict[int, int] = msgspec.field(default_factory=dict)  # {slot: tag}
    behind: "PullRows | None" = None
    base: int | None = None
    is_void: bool = False
    is_judged: bool = False
    then: tuple[int, ...] = ()
    token: int | None = None
    is_held: bool = False
    completes: dict[int, int] = msgspec.field(default_factory=dict)
    stepped: tuple[str, ...] = ()
    together: tuple[int, ...] = ()


class PushEarly(TrainerMessage, frozen=True):
    """Gradients ahead of push ``number``, which takes those that it names.

    Until then they have no effect; those that it does not name never have one. ``tag``
    grows with every such message of the sender. With ``is_lent`` the buffers stay as they
    are until that push has its effect. Answered by `Done`, or `Waiting`: there is no room,
    let the push bring them.

    Buffers: the gradient of each of ``blocks``, as in a `Push`.
    """

    part: int
    number: int
    tag: int
    blocks: tuple[int, ...]
    is_lent: bool = False


class Pushed(Message, frozen=True):
    """What became of a push.

    ``applied``, ``prepared``, ``held``; ``duplicate``: the window had its effect before;
    ``late``: its round was closed without it; ``void``: no effect, and its batches count;
    ``again``: it was too old, nothing of it counts. ``behind`` answers what was asked for
    behind the push; the buffers are its own.
    """

    verdict: Literal["applied", "prepared", "held", "duplicate", "late", "void", "again"]
    version: int
    behind: "PulledRows | None" = None


class Pull(TrainerMessage, frozen=True):
    """Fetch the dense slots of a part on this server, in ascending slot order.

    With ``at_round``, parked until that round is applied here. ``known`` says of slots
    with sparse gradients at which update the sender knows them: of those, rows that have
    changed since are enough. ``asks_place``: say where the values lie, if processes of
    this host may read them. ``reads_there``: the sender does; it wants to know when it
    may, and no values.
    """

    part: int
    at_round: int = 0
    known: dict[int, int] = msgspec.field(default_factory=dict)  # {slot: update}
    asks_place: bool = False
    reads_there: bool = False


class ValuesPlace(msgspec.Struct, frozen=True):
    """Where a server's dense values of a part lie; see `paceline.params.published`."""

    pid: int
    descriptor: int
    num_bytes: int
    key: bytes


class Pulled(Message, frozen=True):
    """Each slot of the part is in ``slots``, as a whole, or in ``changed``, by rows.

    Buffers: one per entry of ``slots``: those that the `Pull` does not know, ascending,
    then others, ascending; then for each of ``changed``, ascending, the int64 numbers of
    rows, as in a `Push`, and their values ``(rows, dim)``.
    ``updates`` says how many updates each slot with sparse gradients has seen, ``version``
    how many pushes the values have in them. With ``is_there`` nothing comes along: the
    values may be read at their place.
    """

    slots: tuple[int, ...]
    round: int
    changed: tuple[int, ...] = ()
    updates: dict[int, int] = msgspec.field(default_factory=dict)  # {slot: update}
    place: ValuesPlace | None = None
    is_there: bool = False
    version: int = 0


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


class KeepTracked(TrainerMessage, frozen=True):
    """Keep the state of tracked objects, until the coordinator says whether it counts.

    Buffers: its bytes. ``buffers_only``: of averaged objects alone; ``average``: with the
    average of these in it. Both are the sender's own affair.
    """

    number: int
    buffers_only: bool = False
    average: tuple[AverageShare, ...] = ()


class AskTracked(TrainerMessage, frozen=True):
    """Fetch the state of this number; answered by `Tracked`."""

    number: int


class Tracked(Message, frozen=True):
    """Buffers: the bytes of the state."""


DataRequest = (
    Upload
    | SetValues
    | KeepFrozen
    | Push
    | PushEarly
    | Pull
    | PullRows
    | KeepTracked
    | AskTracked
    | Lock
    | Unlock
    | KeepLocks
    | ApplyStep
)
DataReply = Done | Pushed | Pulled | PulledRows | Tracked | Locked | Waiting | Refusal
