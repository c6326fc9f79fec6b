"""When the coordinator was last heard, and whether its silence is that of the dead.

::

    it has answered      silent for one time-out: dead
    it is starting       it reads a journal, or a cut, which may take longer than that: dead
                         once it has *done* nothing for one time-out

What it has done, the kernel says: a process that was stopped, or waits for what does not
come, neither computes nor is ever scheduled.

Pure: time is an argument.
"""

from typing import final

LONGEST_STEP_S = 1.0  # between two answers; more was the launcher's own absence
SILENT_ASKS = 3  # a launcher that was stopped itself does not blame the coordinator
LONGEST_START_S = 3600.0  # however busy it is


@final
class Hearing:
    """What the launcher has heard of the coordinator's process. For one thread."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._started_s = 0.0
        self._answered_s: float | None = None  # None: it is starting
        self._unanswered = 0  # asks in a row
        self._signs: int | None = None  # of life, when there were last more of them
        self._signs_s = 0.0  # when that was

    @property
    def is_in_vain(self) -> bool:
        """Whether a process that has never answered was asked several times."""
        return self._answered_s is None and self._unanswered >= SILENT_ASKS

    def note_start(self, now: float) -> None:
        """A new process runs."""
        self._started_s = self._signs_s = now
        self._answered_s, self._unanswered, self._signs = None, 0, None

    def note_answer(self, now: float) -> float:
        """It has answered; for how many seconds it has been heard since it last did."""
        since_s = now if self._answered_s is None else self._answered_s
        self._answered_s, self._unanswered = now, 0
        return min(now - since_s, LONGEST_STEP_S)

    def note_silence(self, signs: int | None, now: float) -> str | None:
        """It was asked and did not answer; why it must be dead, or None.

        ``signs``: a number that grows with whatever the process does; None: not known.
        """
        self._unanswered += 1
        if signs is not None and signs != self._signs:
            self._signs, self._signs_s = signs, now
        if self._unanswered < SILENT_ASKS:
            return None
        if self._answered_s is not None:
            silent_s = now - self._answered_s
            is_dead = silent_s >= self._timeout_s
            return f"it answered nothing for {silent_s:.1f} s" if is_dead else None
        idle_s, start_s = now - self._signs_s, now - self._started_s
        if idle_s >= self._timeout_s:
            return f"it has done nothing for {idle_s:.1f} s, and never answered"
        if start_s >= LONGEST_START_S:
            return f"it was not ready within {start_s:,.0f} s"
        return None
