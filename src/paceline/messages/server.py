"""The link ``server --ServerReport--> coordinator``, and the orders."""

from typing import NamedTuple

import msgspec

from paceline.ids import TaskKey
from paceline.messages.shared import Contribution, Message, PartPlan, VoidSpan


class MarkEntry(msgspec.Struct, frozen=True):
    """The distinct marks that a server's slots hold for a task, ascending.

    ``voids`` are batches up to a mark that had no effect.
    """

    key: TaskKey
    marks: tuple[int, ...]
    voids: tuple[VoidSpan, ...] = ()


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
    """This server's share of a cut is written and durable; or failed, with the reason.

    ``is_refused``: it was storage that did not take it.
    """

    cut: int
    files: tuple[FileEntry, ...]
    error: str | None = None
    is_refused: bool = False


ServerAnswer = FenceReport | MarksReport | CutReport


class PartReport(msgspec.Struct, frozen=True):
    """How a part stands on a server: last applied round, and updates applied so far."""

    applied_round: int
    version: int
    has_ended: bool = False


class SlotLoad(NamedTuple):
    """What a queue of slots has had to do, by the first of them.

    ``busy_s``: seconds in which numbers of it changed or were read, which only grow, as
    long as the server does not return to a cut. ``longest``: so many pushes and pulls
    waited in it at once since this was told last.
    """

    slot: int
    busy_s: float
    longest: int


class ServerReport(Message, frozen=True):
    """How things stand at a server; ``answers`` are results of the last orders.

    ``pinned_cut`` is the cut whose snapshot the server holds: what it applies from then on
    is not in that cut. ``incarnation`` 0 asks to join. Answered by `Orders` at once when
    there are any, otherwise parked for a while; silence of a reporting server means its
    death. ``unreadable``: why it cannot load the cut that it was told to return to.
    ``broken``: why the job cannot go on, with whichever servers. ``load``: now and then.
    """

    server: str
    incarnation: int
    timeline: int
    address: str
    pid: int
    host: str
    ready: bool
    parts: dict[int, PartReport] = msgspec.field(default_factory=dict)
    answers: tuple[ServerAnswer, ...] = ()
    forgotten_cut: int = 0
    tracked: int = 0  # number of the tracked state that counts here
    pinned_cut: int = -1
    unreadable: str | None = None
    broken: str | None = None
    counters: dict[str, int] = msgspec.field(default_factory=dict)  # by name
    load: tuple[SlotLoad, ...] | None = None


class CreatePart(Message, frozen=True):
    """Make the slots of a part that are placed on this server."""

    plan: PartPlan


class EndPart(Message, frozen=True):
    """Nobody trains a part any more: keep its values, and nothing else of it."""

    part: int


class CommitRound(Message, frozen=True):
    """Apply exactly these prepared pushes, with these weights, as one update."""

    part: int
    round: int
    contributions: tuple[Contribution, ...]


class Fence(Message, frozen=True):
    """Refuse an incarnation from now on and report its tasks' marks.

    Its prepared pushes of rounds beyond ``rounds`` are dropped; the report waits until
    the rounds up to there are applied. Of its held pushes, those up to ``step`` have their
    effect and others never do; its locks are let go.
    """

    incarnation: int
    keys: tuple[TaskKey, ...]
    rounds: dict[int, int]  # {part: last committed round}
    step: dict[int, int] = msgspec.field(default_factory=dict)  # {part: committed push}


class Snapshot(Message, frozen=True):
    """Write this server's share of a cut into ``folder``, at exactly these rounds.

    Held pushes up to those of ``steps`` are in it, {incarnation: {part: committed push}}.
    """

    cut: int
    folder: str
    rounds: dict[int, int]
    steps: dict[int, dict[int, int]] = msgspec.field(default_factory=dict)


class Restore(Message, frozen=True):
    """Drop everything, load a cut (with no ``folder``: start empty), enter a timeline.

    ``without_state``: parts whose optimizers in the cut are not those of their plans.
    """

    timeline: int
    cut: int
    folder: str | None
    plans: tuple[PartPlan, ...]
    files: tuple[FileEntry, ...]
    rounds: dict[int, int]
    without_state: tuple[int, ...] = ()


class TakePaces(Message, frozen=True):
    """Enter a timeline with all that is here, under these plans; prepared pushes are void.

    ``without_state``: parts whose optimizers are others from now on, and begin anew.
    ``steps``: as in a `Snapshot`; other held pushes are void, too.
    """

    timeline: int
    plans: tuple[PartPlan, ...]
    without_state: tuple[int, ...] = ()
    steps: dict[int, dict[int, int]] = msgspec.field(default_factory=dict)


class SendMarks(Message, frozen=True):
    """Answer with a `MarksReport`."""


class Forget(Message, frozen=True):
    """A committed cut shows these tasks done: their marks may go.

    All epochs before ``(stage, epoch)`` are done, and of that epoch all tasks before
    ``below`` but those ``kept``.
    """

    cut: int
    stage: int
    epoch: int
    below: int
    kept: tuple[int, ...]


class ConfirmTracked(Message, frozen=True):
    """Of the states of tracked objects that are kept, this one counts from now on."""

    number: int


class ShutDown(Message, frozen=True):
    """The job is over, or the server's incarnation is: exit."""

    reason: str


Order = (
    CreatePart
    | EndPart
    | CommitRound
    | Fence
    | ConfirmTracked
    | Snapshot
    | Restore
    | TakePaces
    | SendMarks
    | Forget
    | ShutDown
)


class Orders(Message, frozen=True):
    """What a server does next, in this order."""

    incarnation: int
    orders: tuple[Order, ...] = ()
