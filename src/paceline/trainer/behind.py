"""What lies behind a script, and the cut that it rests on.

A loop that has ended, or was left by ``break``, is in a committed cut, and no ordinary
return goes behind it. If that cut turns out unreadable all go back further than the script
can: it begins again at its top.

Pure.
"""

from typing import final

from paceline.ids import TaskKey
from paceline.messages import Joined

LOST_BEFORE_BREAK = "steps before a break are lost"


@final
class Behind:
    """The last cut that the script has gone on from.

    Attributes:
        batches: that this process has had.
        last: the last one that it had, or the task of its evaluation; None once the loop is
            over.
    """

    def __init__(self) -> None:
        """The script is at its top."""
        self.batches = 0
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
