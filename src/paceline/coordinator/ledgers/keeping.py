"""What trainers keep at servers: state of tracked objects, and buffers to be averaged.

Pure.
"""

from typing import final

from paceline.messages.shared import AverageShare


@final
class Keeping:
    """Whose state counts, who is asked to keep it, and what is kept to be averaged."""

    def __init__(self, *, is_fresh: bool) -> None:
        self.entered: set[int] = set()  # incarnations that have held a lease
        self.is_fresh = is_fresh  # nothing was applied since state was kept
        self.track_from: int | None = None  # incarnation that is to keep its state
        self.tracking_s: float | None = None  # since when a cut waits for that
        self.buffers: dict[int, AverageShare] = {}  # {incarnation: what it has kept}
        self.averaging_s: float | None = None  # since when the end of a stage waits
        self.average_by: int | None = None  # incarnation that is to average
        self.is_averaged = False  # the state that counts holds the average

    def applied(self) -> None:
        """Something is applied: what trainers have kept is of an earlier moment."""
        self.is_fresh = False
        self.forget_buffers()

    def forget_buffers(self) -> None:
        """What was kept to be averaged is of another moment."""
        self.buffers = {}
        self.averaging_s = self.average_by = None
        self.is_averaged = False

    def drop(self) -> None:
        """The timeline is left: servers have the state of the cut."""
        self.entered.clear()
        self.track_from = self.tracking_s = None
        self.is_fresh = True
        self.forget_buffers()
