"""While the journal's disk takes nothing: what is told, when it is tried again.

::

    a write fails   what was decided is held as it is, and time stands still for decisions
    meanwhile       the write is tried again every second; who waits is told why, is not
                    answered, and asks again
    it works        what was held goes out, and time goes on where it stood: nobody was
                    silent, and no lease has grown old

Nothing is dropped: what was decided is in the state already, and later decisions build on
it. Questions that came meanwhile are not decided at all; whoever put them repeats them, as
after any reply that was lost.

Pure: time is an argument.
"""

from typing import final

from paceline.errors import StoreError, StoreFull
from paceline.ids import COORDINATOR, RoleKind
from paceline.messages.shared import Message, Waiting
from paceline.messages.waits import Wait
from paceline.messages.watching import JobStatus, Trouble
from paceline.timing import in_words

RETRY_S = 1.0
TELL_S = 1.0

_NOW: tuple[RoleKind, ...] = ("launcher", "observer")
_ALL: tuple[RoleKind, ...] = (*_NOW, "operator", "server", "trainer")


@final
class DiskWait:
    """Since when the journal cannot be written, and how long that was in all."""

    def __init__(self) -> None:
        self.error: StoreError | None = None  # why it cannot; None while it can
        self.stood_s = 0.0  # for how long time has stood still, in all times that are over
        self._since_s = self._next_try_s = self._next_told_s = 0.0

    def failed(self, error: StoreError, now: float) -> bool:
        """The journal refused a write; whether this is the first time in a row."""
        is_first = self.error is None
        if is_first:
            self._since_s, self._next_told_s = now, now + TELL_S
        self.error, self._next_try_s = error, now + RETRY_S
        return is_first

    def wrote(self, now: float) -> float:
        """The journal took a write; for how many seconds it had not."""
        if self.error is None:
            return 0.0
        seconds = now - self._since_s
        self.error, self.stood_s = None, self.stood_s + seconds
        return seconds

    def is_due(self, now: float) -> bool:
        """Whether it is time to try again."""
        return now >= self._next_try_s

    def whom_to_tell(self, now: float) -> tuple[RoleKind, ...]:
        """Whose questions are answered now with the reason; all of them every second."""
        if now < self._next_told_s:
            return _NOW
        self._next_told_s = now + TELL_S
        return _ALL

    def trouble(self, now: float) -> Trouble | None:
        """What observers are told; None while all is well."""
        if self.error is None:
            return None
        waited_s = now - self._since_s
        place, why = "", str(self.error)
        if isinstance(self.error, StoreFull):
            place, why = self.error.place, self.error.why
        said = f"waiting for space on the disk of {place}: " if place else "waiting: "
        return Trouble(
            "journal", place, f"{said}{why}, since {in_words(waited_s)}", waited_s
        )


def held_answer(kind: RoleKind, trouble: Trouble, status: JobStatus) -> Message:
    """What a question is answered with: nothing of it is acknowledged."""
    if kind in _NOW:
        return status
    wait = Wait("disk", trouble.text, (COORDINATOR,), since_s=trouble.waited_s or 0.0)
    return Waiting(wait, is_held=True)
