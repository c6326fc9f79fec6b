"""A guest with a role, as who watches processes sees it.

Its parent reaps it, so nobody here learns its exit status: what it has said before counts,
and who has said nothing was killed.

Any thread tells it what has happened; the one that watches waits, and takes leave.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


@final
class GuestProcess:
    """A process of another parent, until it is reaped: see `Watched`."""

    def __init__(self, role: str, pid: int, pidfd: int, fail: Callable[[], None]) -> None:
        """It has this role from now on; the descriptor stays whoever's it is.

        ``fail`` lets it know that it is ended with the job.
        """
        self._fail = fail
        self.role, self.pid = role, pid
        self.lost_with = ""  # this machine is never lost to itself
        self._pidfd = os.dup(pidfd)
        self._over = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._status: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is of the job no more."""
        return self._status is not None

    def ended(self, status: int) -> None:
        """It has left the job, or is dead; the first word counts."""
        if self._status is None:
            self._status = status
            os.eventfd_write(self._over, 1)

    def fileno(self) -> int:
        """Readable once it has left the job, until `reap`."""
        return self._over

    def reap(self) -> int:
        """Take leave of one that has ended: its exit status, or minus a signal's number."""
        assert self._status is not None, "it has not ended"
        if self._over >= 0:
            os.close(self._over)
            os.close(self._pidfd)
            self._over = self._pidfd = -1
        return self._status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its whole group, if it leads one, as torchrun's processes do."""
        if self._is_alive():
            self._fail()
            with suppress(ProcessLookupError):
                if os.getpgid(self.pid) == self.pid:
                    os.killpg(self.pid, number)
                else:
                    signal.pidfd_send_signal(self._pidfd, number)

    def tell_to_leave(self) -> None:
        """SIGTERM to the process itself."""
        if self._is_alive():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    def last_lines(self, count: int = 20) -> list[str]:  # noqa: ARG002
        """None: what it prints is its parent's."""
        return []

    def _is_alive(self) -> bool:
        return self._pidfd >= 0 and not is_readable(self._pidfd)


def is_readable(what: "FileDescriptorLike", timeout_s: float = 0.0) -> bool:
    """Whether something can be read within a time; of a pidfd: its process has ended."""
    poll = select.poll()
    poll.register(what, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
