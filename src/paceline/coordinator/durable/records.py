"""What the durable state says of each shared part and of the last cut.

Pure.
"""

from typing import final

import msgspec

from paceline.config import Combine
from paceline.coordinator.durable import outcomes as o
from paceline.messages.server import FileEntry
from paceline.messages.shared import PartPlan


@final
class PartRecord(msgspec.Struct):
    """A shared part.

    ``recent`` are the last rounds, kept until servers have them; ``counted`` is the number
    of each live trainer's last push that is in a round.
    """

    plan: PartPlan
    uploader: int = 0  # incarnation that sends the initial values
    is_ready: bool = False
    round: int = 0
    recent: list[o.RoundCommitted] = []
    counted: dict[int, int] = {}  # {incarnation: push}

    def has_own_rows(self) -> bool:
        """Whether it is a table of the user's own."""
        return any(isinstance(t.optimizer, Combine) for t in self.plan.spec.tables)


@final
class CutRecord(msgspec.Struct):
    """The last committed cut.

    ``outer`` are its parts whose servers took outer steps: their optimizer state is of no
    use to a pace of another kind, and the other way round.
    """

    cut: int
    timeline: int
    folder: str
    queue: bytes
    rounds: dict[int, int]
    files: dict[str, tuple[FileEntry, ...]]  # {server id: its files}
    parts: tuple[int, ...]
    steps: int = 0  # rounds or direct pushes applied by then
    outer: tuple[int, ...] = ()

    @classmethod
    def of(cls, outcome: o.CutCommitted) -> "CutRecord":
        """What is known of a cut from when it is committed."""
        return msgspec.convert(outcome, cls, from_attributes=True)
