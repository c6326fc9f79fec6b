"""Becoming a member, and finding a part its place: what precedes all work.

Pure.
"""

from typing import Final

from paceline.config import Combine
from paceline.errors import Refused
from paceline.messages import (
    Joined,
    JoinTrainer,
    KeepFrozen,
    Lease,
    PartAnswer,
    PartPlan,
    PartUploaded,
    Refusal,
    SharePart,
    UnsharePart,
    Upload,
    Wait,
)
from paceline.trainer.asking import FIRST_PAUSE_S, Act, Asking, Pause
from paceline.trainer.marching import Marching
from paceline.trainer.parts import SharedPart
from paceline.trainer.pushing import pull_part

PIECE_BYTES: Final = 64 << 20  # of frozen parameters in one message


def join_job(asking: Asking, trainer: str, pid: int, host: str) -> Act[Joined]:
    """Ask to be let in until all servers of the job are there.

    ``asking`` speaks as the new member from here on.

    Raises:
        Refused: the coordinator does not want this trainer.
    """
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

    Returns:
        Why the script must begin again: the job has lost a part that was trained. What is
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
    marching: Marching,
    servers: tuple[str, ...],
) -> Act[None]:
    """A lease has come, and none was held: stand where it says, with values to match."""
    marching.enter(lease)
    asking.records = lease.records
    for number, part in sorted(parts.items()):
        part.round = lease.rounds.get(number, part.round)
        if not part.is_sync or part.pulled_round < part.base_round():
            marching.reads(part)
            yield from pull_part(asking, part, servers, part.base_round())
