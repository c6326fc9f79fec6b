"""How the leader of a trainer's ranks lets numbers travel from GPU to GPU, or not.

At the start of every loop, since a script may move its model after it is shared. NCCL
refuses two ranks on one GPU; so it is decided part by part, of what ranks say, and by way
of host memory (Gloo) otherwise.

Waits: for followers, which wait in calls of their own. The thread of the user's script
calls.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

from paceline.trainer.group import wire as wire
from paceline.trainer.group.collectives import GroupTensors
from paceline.trainer.group.leader_calls import Followers
from paceline.trainer.tensors import ModelTensors

_log = logging.getLogger("paceline.trainer")


class Way(NamedTuple):
    """How the dense numbers of a part travel between ranks; ``why``: if a GPU is in use."""

    is_between_gpus: bool
    why: str


def decide_way(found: Sequence[str], *, can_connect: bool) -> Way:
    """Decide how the numbers of one part travel, of the GPU of each rank's parameters.

    ``can_connect``: NCCL is here.
    """
    missing = [index for index, gpu in enumerate(found) if not gpu]
    if len(missing) == len(found):
        return Way(False, "")
    if missing:
        return Way(False, f"parameters of {_named(missing)} do not lie on one GPU")
    for gpu in found:
        sharing = [index for index, other in enumerate(found) if other == gpu]
        if len(sharing) > 1:
            return Way(False, f"{_named(sharing)} share GPU {gpu}")
    if not can_connect:
        return Way(False, "this torch has no NCCL")
    return Way(True, f"each of {len(found)} ranks has a GPU of its own")


def _named(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


@final
class Agreement:
    """The leader's: which parts travel between GPUs."""

    def __init__(
        self,
        followers: Followers,
        tensors: GroupTensors,
        numbers: Mapping[int, ModelTensors],
    ) -> None:
        """Everything goes by way of host memory at first."""
        self._followers, self._tensors, self._numbers = followers, tensors, numbers
        self._ways: dict[int, Way] = {}  # {part: as decided last}

    def agree(self, calls: Mapping[int, wire.FromFollower]) -> None:
        """All begin a loop: decide, and let it be so in every rank.

        Raises:
            PeerLost: GPUs cannot be connected.
        """
        theirs = [call.gpus for call in calls.values() if isinstance(call, wire.Begin)]
        everyone = [self._tensors.gpus_of(self._numbers), *theirs]
        can_connect = self._tensors.gpus.can_connect()
        ways = {}
        for part in self._numbers:
            found = [gpus.get(part, "") for gpus in everyone]
            ways[part] = decide_way(found, can_connect=can_connect)
        chosen = tuple(part for part, way in ways.items() if way.is_between_gpus)
        for part, way in ways.items():
            if way.why and way != self._ways.get(part):
                level = logging.INFO if way.is_between_gpus else logging.WARNING
                _log.log(level, "%s", _said(part, way))
        before, self._ways = self._ways, ways
        if chosen != tuple(p for p, way in before.items() if way.is_between_gpus):
            self._followers.tell(self._followers.all, wire.BetweenGpus(chosen))
            self._tensors.go_between_gpus(chosen, self._numbers)


def _said(part: int, way: Way) -> str:
    how = (
        "from GPU to GPU (NCCL)" if way.is_between_gpus else "by way of host memory (Gloo)"
    )
    return f"part {part}: dense numbers travel between ranks {how}: {way.why}"
