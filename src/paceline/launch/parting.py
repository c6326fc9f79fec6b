"""How a script that is its whole job comes to its end when it is asked to: the decisions.

::

    asked once     the script is told: a loop ends at its next batch, code outside of calls
                   where it is; then `OwnJob` takes a cut
    after 15 s     a call that is still open is given up, as if its trainer had died; code
                   outside of calls holds nothing of the job, and is not hurried
    full disk      such a call is given up at once: nothing can be saved
    asked again    all ends at once, without a cut

Requests that come together (a closed terminal sends two) are one.

Pure: time is an argument.
"""

from typing import Literal, final

from paceline.launch.supervise import LEAVE_S, SAVE_S

TOGETHER_S = 0.1

TOLD = (
    f"interrupted: a loop ends at its next batch (within {LEAVE_S:g} s), then a checkpoint "
    f"is taken (within {SAVE_S:g} s); once more, and all ends at once"
)

Act = Literal["ask to leave", "knock", "give up", "end now"]


@final
class Parting:
    """What has been asked for, and when."""

    def __init__(self) -> None:
        self._asked_s: float | None = None
        self._last_s = 0.0
        self._is_over = False

    def asked(self, now: float, *, is_stuck: bool = False) -> Act | None:
        """The user wants the end; ``is_stuck``: of a script that waits for a full disk."""
        is_another = now - self._last_s >= TOGETHER_S
        self._last_s = now
        if self._asked_s is None:
            self._asked_s = now
            return "end now" if is_stuck else "ask to leave"
        return "end now" if is_another else None

    def passed(
        self, now: float, *, is_held: bool, was_told: bool, is_full: bool = False
    ) -> Act | None:
        """Time has passed.

        A call of the script's may be open (``is_held``), the script may know that it is to
        end, the disk of the job folder may take nothing.
        """
        if self._asked_s is None or self._is_over:
            return None
        if is_held and (is_full or now - self._asked_s >= LEAVE_S):
            self._is_over = True
            return "give up"
        return None if is_held or was_told else "knock"
