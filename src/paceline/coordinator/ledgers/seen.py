"""What trainers were seen to do, and were lost with.

Pure.
"""

from typing import final

from paceline.ids import TaskKey
from paceline.messages.shared import BlockAt

KEPT_LOST = 1024  # lost trainers whose end the launcher may still report


@final
class TrainersSeen:
    """Of all trainers."""

    def __init__(self) -> None:
        self.asked_stage: dict[str, int] = {}  # {trainer id: the stage it is in}
        self.asked_first = (-1, 0.0)  # the last stage asked for, and since when
        self.records: dict[str, int] = {}  # {trainer id: records finished by it}
        self.last_late: dict[tuple[int, int], int] = {}  # {(incarnation, part): push}
        # {pid of a lost trainer: tasks}
        self.lost_tasks: dict[int, tuple[TaskKey, ...]] = {}
        # {(stage, block): who has left it, its incarnation}; no more than a hint
        self.blocks_at: dict[tuple[int, int], tuple[BlockAt, int]] = {}
        self.setter = 0  # incarnation whose changed values are on their way

    def lost(self, pid: int, tasks: tuple[TaskKey, ...]) -> None:
        """A process is lost with these tasks; that it crashed may be told later."""
        self.lost_tasks[pid] = tasks
        if len(self.lost_tasks) > KEPT_LOST:
            self.lost_tasks.pop(next(iter(self.lost_tasks)))

    def forget(self, trainer: str, incarnation: int) -> None:
        """A trainer is lost or gone."""
        self.asked_stage.pop(trainer, None)
        for key in [key for key in self.last_late if key[0] == incarnation]:
            del self.last_late[key]

    def drop(self) -> None:
        """The timeline is left: everybody says again where it is."""
        self.asked_stage.clear()
        self.blocks_at.clear()
