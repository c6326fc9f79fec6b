"""Being told to leave: SIGTERM to a trainer, as clouds and schedulers send it.

::

    at once      the session is told: its loop ends at the next batch, with exit code 75
    after 3 s    a step that is still computing is left alone: its data goes to others
    after 8 s    the process ends, whatever it does

A thread learns of the signal, so that a long call into native code does not hide it
(`signals`). Code behind the loop (an evaluation, a report) is not hurried: it holds nothing
of the job.

Waits: for a signal, without a bound, in a daemon thread; then as above.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Protocol, final

from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.launch.processes.signals import Signals

ABANDON_S = 3.0
END_S = 8.0


class Leaver(Protocol):
    """What can be told to leave; a `Session`."""

    def leave_soon(self, reason: str) -> None:
        """Leave at the next batch."""

    def abandon(self) -> None:
        """Give up what is held."""

    def is_idle(self) -> bool:
        """Whether nothing is held."""


@final
class LeaveNotice:
    """Tells one session when SIGTERM comes."""

    def __init__(
        self,
        session: Leaver,
        wait_s: Callable[[float], object] = time.sleep,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """Listen from now on; the main thread. ``end`` ends the process at once."""
        self._session, self._wait_s, self._end = session, wait_s, end
        self._signals = Signals([signal.SIGTERM])
        self._thread = threading.Thread(target=self._run, name="leave-notice", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more: SIGTERM ends the process again."""
        self._signals.hang_up()
        self._thread.join()
        self._signals.close()

    def _run(self) -> None:
        if not self._signals.wait(None):
            return
        self._session.leave_soon("SIGTERM")
        self._wait_s(ABANDON_S)
        if self._session.is_idle():
            return
        self._session.abandon()
        self._wait_s(END_S - ABANDON_S)
        if not self._session.is_idle():
            self._end(PREEMPTED_EXIT_CODE)
