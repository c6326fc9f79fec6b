"""Where a process sits in its trainer, as the launcher has placed it.

Waits: until all servers of the job are there. The thread of the user's script calls.
"""

from paceline.config import Pace
from paceline.timing import Clock
from paceline.trainer.client import ConnectCoordinator, ConnectServer, Courier
from paceline.trainer.group import Follower, GroupPlace, Leader
from paceline.trainer.member import Alone, Membership, Seat


def take_seat(
    trainer: str,
    coordinator: ConnectCoordinator,
    server: ConnectServer,
    clock: Clock,
    timeout_s: float,
    group: GroupPlace | None,
    pace: Pace | None,
) -> tuple[Membership | Follower, Seat]:
    """Join the job, as one of its trainers or as a process of one.

    Args:
        trainer: role id.
        coordinator: incarnation -> a fresh connection to the coordinator.
        server: (address, incarnation) -> a fresh connection to a server.
        clock: for deadlines.
        timeout_s: a reply that takes longer is asked for again.
        group: where this process stands in a trainer of several.
        pace: of the job, for those that do not lead their trainer.

    Raises:
        JobFailed: there is no coordinator.
        ForeignPeer: the coordinator is of another run, version or secret.
    """
    if group is not None and group.number:
        assert pace is not None
        follower = Follower(group, pace, server, clock, timeout_s)
        return follower, follower
    member = Membership(trainer, Courier(coordinator, server), clock, timeout_s)
    return member, Alone(member) if group is None else Leader(member, group)
