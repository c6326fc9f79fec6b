"""How values that have come to ranks of a trainer become those of all.

::

    pulled by the leader alone    its parameters go to the others
    pulled by shares              each rank's share goes to the others

Waits: for followers, which wait in calls of their own. The thread of the user's script
calls.
"""

from typing import final

from paceline.trainer import group_wire as wire
from paceline.trainer.carrier import Carrier
from paceline.trainer.group_followers import Followers
from paceline.trainer.group_shares import Shares, shares, speakers, whole
from paceline.trainer.group_tensors import GroupTensors


@final
class GroupValues:
    """What the leader knows of the parameters in other ranks."""

    def __init__(
        self, followers: Followers, tensors: GroupTensors, carrier: Carrier
    ) -> None:
        """Nothing is shared yet.

        Args:
            followers: the other ranks.
            tensors: dense numbers of all.
            carrier: of the leader.
        """
        self._followers, self._tensors, self._carrier = followers, tensors, carrier
        self._versions: dict[int, list[int]] = {}  # {part: of what followers have}
        self._shared: set[int] = set()  # parts whose last values came by shares

    def pulling(self, part: int, *, by_shares: bool) -> None:
        """Values of a part are going to come."""
        if by_shares:
            self._shared.add(part)
        else:
            self._shared.discard(part)

    def refresh(self) -> None:
        """All ranks get what has come since the last time."""
        fresh = []
        for part, numbers in self._carrier.numbers.items():
            versions = [p._version for p in numbers.parameters]
            if versions and versions != self._versions.get(part):
                self._versions[part] = versions
                fresh.append(part)
        if not fresh:
            return
        by_shares = tuple(part for part in fresh if part in self._shared)
        told = wire.Refresh(tuple(fresh), by_shares)
        self._followers.tell(self._followers.all, told)
        for part in fresh:
            numbers = self._carrier.numbers[part]
            self._tensors.broadcast(part, numbers.parameters, self._held(part))
            numbers.watched.settled()

    def _held(self, part: int) -> Shares:
        parameters = self._carrier.numbers[part].parameters
        if part not in self._shared:
            return whole(parameters)
        plan = self._carrier.plan(part)
        speaking = speakers(plan, 1 + len(self._followers.all))
        return shares(plan, speaking, range(len(parameters)))
