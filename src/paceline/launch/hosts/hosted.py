"""A process on another host, as the launcher watches it: like one of its own.

Any thread tells it what has happened; the launcher's waits, and takes leave.
"""

import os
import signal
from collections.abc import Callable
from typing import final

from paceline.launch.hosts.roster import ProcessEnded
from paceline.messages.hosts import HostExit, HostWish


@final
class HostedChild:
    """A process that a host has started, until it is reaped."""

    def __init__(
        self,
        role: str,
        pid: int,
        turn: Callable[[HostWish], None],
        forget: Callable[[], None],
    ) -> None:
        """It runs; ``turn`` wishes otherwise for it, ``forget`` takes leave of it."""
        self.role, self.pid = role, pid
        self.lost_with = ""  # the host, if it was lost with that
        self._turn, self._forget = turn, forget
        self._exit: HostExit | None = None
        self._over = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ended(self, ended: ProcessEnded) -> None:
        """It has ended, or counts as such; once."""
        self._exit, self.lost_with = ended.exit, ended.host
        os.eventfd_write(self._over, 1)

    def fileno(self) -> int:
        """Readable once the process has ended, until `reap`."""
        return self._over

    def reap(self) -> int:
        """Take leave of an ended process: its exit status, below zero a signal's number."""
        assert self._exit is not None, "it has not ended"
        if self._over >= 0:
            os.close(self._over)
            self._over = -1
            self._forget()
        return self._exit.status

    def signal(self, number: signal.Signals) -> None:
        """Have a signal sent to the whole group: SIGTERM or SIGKILL."""
        self._turn("kill" if number is signal.SIGKILL else "end")

    def tell_to_leave(self) -> None:
        """SIGTERM to the process itself."""
        self._turn("leave")

    def last_lines(self, count: int = 20) -> list[str]:
        """The last lines of its log, once it has ended."""
        return [] if self._exit is None else list(self._exit.lines[-count:])
