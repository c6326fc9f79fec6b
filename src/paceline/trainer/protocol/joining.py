"""Becoming a member, and finding a part its place: what precedes all work.

Pure.
"""

from typing import Final, final

from msgspec.structs import replace

from paceline.config import Combine
from paceline.errors import Refused, UsageError
from paceline.ids import TaskKey
from paceline.messages.data import KeepFrozen, Upload
from paceline.messages.shared import Lease, PartPlan, Refusal, StageSpec
from paceline.messages.trainer import (
    BeginStage,
    Joined,
    JoinTrainer,
    PartAnswer,
    PartUploaded,
    SharePart,
    ShuffledAs,
    UnsharePart,
)
from paceline.messages.waits import Wait
from paceline.trainer.acts import FIRST_PAUSE_S, Act, Asking, Pause
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol.pacing import StalenessGate
from paceline.trainer.protocol.pushing import pull_part

PIECE_BYTES: Final = 64 << 20  # of frozen parameters in one message


def join_job(asking: Asking, trainer: str, pid: int, host: str) -> Act[Joined]:
    """Ask to be let in until all servers of the job are there.

    ``asking`` speaks as the new member from here on.

    Raises:
        Refused: the coordinator does not want this trainer.
    """
    asking.pid, asking.host = pid, host
    while True:
        reply = yield from asking.insist(
            JoinTrainer(trainer=trainer, pid=pid, host=host, previous=asking.incarnation)
        )
        if isinstance(reply, Refusal):
            raise Refused(reply.kind, reply.text)
        assert isinstance(reply, Joined)
        asking.incarnation, asking.timeline = reply.incarnation, reply.timeline
        if reply.servers:
            return reply
        wait = reply.wait or Wait("servers", "servers are not there yet")
        yield Pause(5 * FIRST_PAUSE_S, wait)


def establish(
    asking: Asking, part: SharedPart, servers: tuple[str, ...]
) -> Act[str | None]:
    """Learn a part's plan; upload its values if this trainer is the first.

    Or why the script must begin again: the job has lost a part that was trained. What is
    here of it are no initial values, so they are not sent.
    """
    reply = yield from asking.ask(SharePart(**asking.who(), spec=part.spec))
    assert isinstance(reply, PartAnswer)
    part.take_plan(reply.plan)
    number = part.spec.part
    if not reply.upload:
        return None
    if part.number:
        return f"part {number} was trained, and lies in no cut that can be read"
    given = given_slots(reply.plan)
    yield from asking.ask_servers(
        {
            server: Upload(
                **asking.who(),
                part=number,
                slots=tuple(
                    slot
                    for slot, place in sorted(reply.plan.placement.items())
                    if place == server and slot in given
                ),
            )
            for server in servers
        }
    )
    beside = reply.plan.spec.beside
    if beside is not None and beside.frozen:
        for first in range(0, beside.bytes, PIECE_BYTES) or [0]:
            stop = min(first + PIECE_BYTES, beside.bytes)
            who = asking.who()
            keep = KeepFrozen(**who, part=number, beside=beside, first=first, stop=stop)
            yield from asking.ask_servers({min(servers): keep})
    yield from asking.ask(PartUploaded(**asking.who(), part=number))
    return None


def unshare(asking: Asking, part: SharedPart, servers: tuple[str, ...]) -> Act[None]:
    """Go on without a part, with its last values; nobody trains it any more."""
    yield from pull_part(asking, part, servers, 0)
    yield from asking.ask(UnsharePart(**asking.who(), part=part.spec.part))


def given_slots(plan: PartPlan) -> frozenset[int]:
    """Slots that begin with what the first trainer has; others begin by themselves."""
    dense = {block.slot for block in plan.blocks}
    for table in plan.spec.tables:
        if isinstance(table.optimizer, Combine) and table.optimizer.has_values:
            first, count = plan.first_row_slot, plan.num_row_slots
            dense.update(range(first, first + count))
    return frozenset(dense)


def enter(
    asking: Asking,
    lease: Lease,
    parts: dict[int, SharedPart],
    marching: StalenessGate,
    servers: tuple[str, ...],
    *,
    is_behind_push: bool = False,
) -> Act[None]:
    """A lease has come, and none was held: stand where it says, with values to match.

    ``is_behind_push``: with the tick of a push, so that what was read behind that serves.
    """
    marching.enter(lease)
    asking.records = lease.records
    for number, part in sorted(parts.items()):
        part.round = lease.rounds.get(number, part.round)
        is_read = is_behind_push and not part.rules.is_bounded and part.has_read()
        if part.pulled_round < part.base_round() or not (part.rules.is_sync or is_read):
            marching.reads(part)
            yield from pull_part(asking, part, servers, part.base_round())


LOST_BEFORE_BREAK = "steps before a break are lost"


@final
class UndoPoint:
    """The last cut that the script has gone on from: what lies behind it.

    A loop that has ended, or was left by ``break``, is in a committed cut, and no ordinary
    return goes behind it. If that cut turns out unreadable all go back further than the
    script can: it begins again at its top.
    """

    def __init__(self) -> None:
        self.batches = 0  # that this process has had
        # The last one that it had, or the task of its evaluation; None once the loop is
        # over.
        self.last: tuple[TaskKey, int] | None = None
        self._cut = -1
        self._left_on: int | None = None

    def had(self, task: TaskKey, batch: int) -> None:
        """The script was given a batch of a task."""
        self.batches += 1
        self.last = task, batch

    def left(self, timeline: int) -> None:
        """A loop was left early, on this timeline."""
        self._left_on = timeline

    @property
    def has_left(self) -> bool:
        """Whether a loop was left that has not ended since."""
        return self._left_on is not None

    def take_left(self) -> int | None:
        """The timeline on which a loop was left that has not ended since, if one was."""
        left_on, self._left_on = self._left_on, None
        return left_on

    def went_on_from(self, cut: int) -> None:
        """A loop is behind the script, and this cut holds its end."""
        self._cut = max(self._cut, cut)
        self.last = None

    def why_undone(self, joined: Joined) -> str | None:
        """Why the script must begin again; None if what is behind it stands."""
        if any(first <= self._cut <= last for first, last in joined.undone):
            return f"cut {self._cut}, which a loop of it had ended with, cannot be read"
        return None


def agree_stage(asking: Asking, spec: StageSpec) -> Act[StageSpec]:
    """Begin a stage, or come to it; how it is shuffled is for the first to say.

    Raises:
        UsageError: the job's stage of this number is another one.
    """
    reply = yield from asking.ask(BeginStage(**asking.who(), spec=spec))
    return replace(spec, loop=reply.loop) if isinstance(reply, ShuffledAs) else spec


def check_order(agreed: StageSpec | None, spec: StageSpec) -> None:
    """The ranks of a trainer read in the order of their own stage.

    Raises:
        UsageError: the job's is another one.
    """
    if agreed != spec:
        raise UsageError(
            "batches: this loop was begun in the order of another one, by a version that "
            "had one order for all loops: let it end with --ranks-per-trainer 1"
        )
