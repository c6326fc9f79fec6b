"""The link ``trainer --TrainerRequest--> coordinator``, and the replies."""

import msgspec

from paceline.config import Pace
from paceline.ids import Window
from paceline.messages.locking import CommitStep
from paceline.messages.meeting import AskPeers, DoorOpened, Exchange, Meet, MeetAgain, Peers
from paceline.messages.results import AskResults, FinishTask, KeepValue, Results
from paceline.messages.shared import (
    Done,
    Lease,
    Message,
    PartPlan,
    PartSpec,
    Refusal,
    RefusedPush,
    SpentTime,
    StageSpec,
    TrainerClock,
    TrainerMessage,
    Waiting,
)
from paceline.messages.values import (
    Claimed,
    ClaimOnce,
    ClaimValues,
    ValuesClaimed,
    ValuesSet,
)
from paceline.messages.waits import Wait


class JoinTrainer(Message, frozen=True):
    """Become a member, or learn how things stand as the member ``previous``."""

    trainer: str
    pid: int
    host: str
    previous: int = 0


class Joined(Message, frozen=True):
    """``incarnation`` equals ``previous`` if that is still a member.

    ``undone`` are the first and last numbers of cuts that could not be read when all had to
    return to them: what was done on the strength of one of them is undone. ``returned``
    is the timeline of the last return: what was acknowledged on it or later still stands.
    ``trainers``: how many the job has, or waits for before it begins. While ``servers``
    are none, ``wait`` says for which.
    """

    incarnation: int
    timeline: int
    generation: int
    pace: Pace
    seed: int
    servers: dict[str, str]  # {server id: address}
    beat_s: float
    undone: tuple[tuple[int, int], ...] = ()
    returned: int = 0
    trainers: int = 1
    wait: Wait | None = None


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


class UnsharePart(TrainerMessage, frozen=True):
    """The script goes on without a part; the first to say so ends it for all."""

    part: int


class BeginStage(TrainerMessage, frozen=True):
    """Register the data of a stage; a repeat must say the same."""

    spec: StageSpec


class AskLease(TrainerMessage, frozen=True):
    """Ask for work. ``held`` are the leases that the trainer knows it holds.

    Answered by `Granted`, `Waiting`, `StageOver`. A lease granted to this incarnation
    and missing from ``held`` is granted again: a lost reply costs nothing. A held one
    comes with its last batch acknowledged in every part, for a coordinator that has
    restarted since. ``is_open``: batches wait for their step, and would be pushed without
    it if the asker had to wait; where no task is left, that is said at once. ``is_ahead``:
    they are held, and this is for batches behind them; where that is in vain until they are
    stepped, `Waiting` says ``is_spent`` at once.
    """

    stage: int
    held: tuple[tuple[int, int], ...] = ()  # (token, last acknowledged batch)
    is_open: bool = False
    is_ahead: bool = False


class Granted(Message, frozen=True):
    """A lease."""

    lease: Lease


class ShuffledAs(Message, frozen=True):
    """The stage was begun in the order of another loop, maybe by an older version."""

    loop: int


class StageOver(Message, frozen=True):
    """The stage has ended for all; ``stopped`` carries the reason of a stop.

    ``cut`` is the last committed one: it holds this end. ``tracked``: averaged objects are
    those of this state from here on. So are all of ``state``; ``has_state``: they are.
    """

    stopped: str | None = None
    cut: int = -1
    tracked: int | None = None
    state: int | None = None
    has_state: bool = False


class Tick(TrainerMessage, frozen=True):
    """One push is acknowledged by all servers: its window has its effect, or is prepared.

    ``acked`` is, for each span of the window, its task's last batch acknowledged in every
    part, this push counted: a coordinator that has restarted learns all it must know.
    With ``round``, answered by `Ticked` once that round (with a quorum: or a later one) is
    committed, or `Waiting`; the push contributes to it if it is prepared, else it was
    applied before and the trainer keeps the others company: nobody falls out of line.
    ``ends_step``: no other part that is updated in rounds awaits its step.
    With ``next_lease``, a task finished by this tick is followed by the next one at once.
    ``clock``: its steps, where a pace bounds them. ``refused``: pushes without effect.
    ``exchange``: the name of the one whose values have all come, where there is one; then
    `MeetAgain` may be the answer. ``spent``: now and then, as in a `Beat`.
    """

    part: int
    number: int
    window: Window
    records: int
    acked: tuple[int, ...]
    round: int | None = None
    is_prepared: bool = False
    ends_step: bool = True
    next_lease: bool = False
    clock: TrainerClock | None = None
    refused: tuple[RefusedPush, ...] = ()
    exchange: int = 0
    spent: SpentTime | None = None


class Ticked(Message, frozen=True):
    """The tick counts. ``stopped``: the script's `Session.stop` was called somewhere.

    ``track``: before the next batch, keep tracked objects. ``slowest``: the least clock, if
    the tick told one and it is known. ``late``: the round was closed without it, and this
    is the last one; the push has no effect. ``records``: of the job, acknowledged; all who
    ticked a round are told the same. ``pauses``: leases go back before the next batch.
    ``round``: with a quorum, the last committed one, which has the push or comes behind
    the one that has. ``steps``: batches of the next delta, where the pace adapts them.
    """

    lease: Lease | None = None
    stopped: str | None = None
    track: bool = False
    slowest: int | None = None
    late: int | None = None
    records: int = 0
    pauses: bool = False
    round: int | None = None
    steps: int | None = None


class Beat(TrainerMessage, frozen=True):
    """A sign of life between other requests, with what `paceline status` shows.

    ``state`` is what the trainer is at when it does not wait; empty: as it said before.
    ``evaluated`` counts batches that needed no step: progress that no tick tells.
    ``bounded_clock`` is what a `Tick` says, where a pace bounds it. ``unreached`` are
    servers to which no connection can be made, of those that it waits for. ``spent``: what
    its time went into so far, since its process has joined; it is ``pid`` on ``host``.
    """

    clock: int
    state: str = ""
    wait: Wait | None = None
    evaluated: int = 0
    bounded_clock: TrainerClock | None = None
    unreached: tuple[str, ...] = ()
    spent: SpentTime | None = None
    pid: int = 0
    host: str = ""


class Beaten(Message, frozen=True):
    """How things stand; on a timeline not its own a trainer rejoins; see `Ticked`.

    ``servers``: where they are now, for one that waits for some: {server id: address}.
    """

    timeline: int
    stopped: str | None = None
    pauses: bool = False
    servers: dict[str, str] = msgspec.field(default_factory=dict)


class MayGoOn(TrainerMessage, frozen=True):
    """Ask to begin a step at this clock, at most ``staleness`` ahead of the slowest.

    Answered by `GoOn`, or `Waiting`.
    """

    clock: TrainerClock
    staleness: int


class GoOn(Message, frozen=True):
    """The slowest has come so far: all updates of its steps are on the servers."""

    slowest: int


class TrackedKept(TrainerMessage, frozen=True):
    """The state of the asker's tracked objects lies at a server, under ``number``.

    ``rounds`` is where the asker stood in each synchronous part; ``is_average``: it holds
    the average that was asked for.
    """

    number: int
    rounds: dict[int, int]
    is_average: bool = False


class BuffersKept(TrainerMessage, frozen=True):
    """The asker's averaged objects lie at a server, under ``number``.

    ``records``: trained by it since they were equal to those of all others.
    """

    number: int
    records: int


class HandBack(TrainerMessage, frozen=True):
    """Give leases back (``break``, leaving); nothing of them is in flight.

    ``acked`` are the last acknowledged batches, in the order of ``tokens``. ``is_carried``:
    they are cells whose time was over, and that their blocks go on without.
    """

    tokens: tuple[int, ...]
    acked: tuple[int, ...]
    is_carried: bool = False


class FailTask(TrainerMessage, frozen=True):
    """A task cannot be worked on (its data cannot be read); nothing of it is in flight."""

    token: int
    acked: int
    error: str


class Stop(TrainerMessage, frozen=True):
    """Training stops, for all trainers."""

    reason: str


class Log(TrainerMessage, frozen=True):
    """Numbers of the user; non-finite ones are None.

    ``ages_s``: how long some of them have waited to be sent, {name: seconds}.
    """

    numbers: dict[str, float | None]
    ages_s: dict[str, float] = msgspec.field(default_factory=dict)


class Save(TrainerMessage, frozen=True):
    """Ask for a cut begun after this request; ``number`` makes a retry the same request.

    Answered by `Saved`, or `Waiting`. ``left``: the stage whose loop the asker has left
    early; if all have, the cut ends that stage, and nobody comes back to it.
    """

    number: int
    left: int | None = None


class Saved(Message, frozen=True):
    """The cut is committed."""

    cut: int


class Leave(TrainerMessage, frozen=True):
    """The trainer goes; ``is_done``: its script has ended, else it was told to leave."""

    is_done: bool = True


class Computed(TrainerMessage, frozen=True):
    """How long batches took to read, compute and step on since this was told last.

    ``seconds`` are evenly spaced quantiles, least to most; ``mean_s`` is of all batches.
    """

    batches: int
    seconds: tuple[float, ...]
    mean_s: float


class AskRecords(TrainerMessage, frozen=True):
    """How many records are counted so far, by how many trainers; answered by `Records`."""


class Records(Message, frozen=True):
    """Acknowledged records of the job; its trainers, or those it waits for to begin."""

    records: int
    trainers: int = 0


TrainerRequest = (
    JoinTrainer
    | SharePart
    | PartUploaded
    | UnsharePart
    | BeginStage
    | AskLease
    | Tick
    | MayGoOn
    | TrackedKept
    | BuffersKept
    | HandBack
    | FailTask
    | FinishTask
    | AskResults
    | KeepValue
    | Beat
    | ClaimOnce
    | Stop
    | Log
    | Computed
    | Save
    | Leave
    | AskRecords
    | CommitStep
    | DoorOpened
    | AskPeers
    | Meet
    | ClaimValues
    | ValuesSet
)
TrainerReply = (
    Joined
    | PartAnswer
    | Granted
    | ShuffledAs
    | StageOver
    | Ticked
    | GoOn
    | Beaten
    | Claimed
    | Saved
    | Records
    | Results
    | Peers
    | Exchange
    | MeetAgain
    | ValuesClaimed
    | Done
    | Waiting
    | Refusal
)
