"""What a listener logs about those it turns away: readable, one line each, not without end.

What a stranger sent is never trusted to be text: control characters are spelt out, so that
nobody can forge a line of the log or move a terminal's cursor. A stranger that comes a
thousand times a second does not fill the disk either: what was left out is counted.

Any thread may call.
"""

import logging
import threading
from typing import final

from paceline.timing import Clock, Deadline

LINES = 20
EVERY_S = 60.0
_LONGEST = 2000  # characters

logger = logging.getLogger("paceline.transport")


def printable(text: str) -> str:
    """The same text in one line: what a terminal would obey or hide is spelt out."""
    shown = text[:_LONGEST]
    if shown.isprintable():
        return shown
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode()
        for mark in shown
    )


@final
class Complaints:
    """At most `LINES` lines in `EVERY_S` seconds."""

    def __init__(self, address: str, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._lock = threading.Lock()  # guards the three fields below
        self._left = LINES
        self._num_left_out = 0
        self._until = Deadline(clock, EVERY_S)

    def say(self, what: str, who: object, reason: str) -> None:
        """Log a warning, or count it as left out."""
        with self._lock:
            if self._until.is_over():
                self._left, self._until = LINES, Deadline(self._clock, EVERY_S)
            if not self._left:
                self._num_left_out += 1
                return
            self._left -= 1
            left_out, self._num_left_out = self._num_left_out, 0
        more = f" ({left_out} like complaints were left out)" if left_out else ""
        logger.warning(
            "%s: %s %s: %s%s",
            self._address,
            what,
            printable(str(who)),
            printable(reason),
            more,
        )
