"""Where a process sits in its trainer, as the launcher has placed it.

Waits: until all servers of the job are there. The thread of the user's script calls.
"""

from paceline.timing import Clock
from paceline.trainer.client import Courier
from paceline.trainer.group import Follower, GroupPlace, Leader
from paceline.trainer.membership import Membership
from paceline.trainer.peers import PeerWires
from paceline.trainer.seat import Alone, Seat


def take_seat(
    trainer: str,
    courier: Courier,
    clock: Clock,
    timeout_s: float,
    *,
    peers: PeerWires | None = None,
    group: GroupPlace | None = None,
) -> Seat:
    """Join the job, as one of its trainers or as a process of one.

    Raises:
        JobFailed: there is no coordinator.
        ForeignPeer: the coordinator is of another run, version or secret.
    """
    if group is not None and group.number:
        return Follower(group, courier, clock, timeout_s)
    membership = Membership(trainer, courier, clock, timeout_s, peers)
    return Alone(membership) if group is None else Leader(membership, group)
