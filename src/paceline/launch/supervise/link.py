"""The launcher's link to the coordinator: exits go there at once, status comes back.

An exit stays in the queue until a report that carried it was answered; after a restart of
the coordinator it is sent again, and reporting one twice changes nothing.

Waits: `call_report`, for at most its time-out. For one thread.
"""

from collections.abc import Callable
from typing import Protocol, final

from paceline.errors import TransportError
from paceline.messages.shared import Refusal
from paceline.messages.watching import Exited, JobStatus, LauncherOrders, LauncherReport
from paceline.transport.connection import Connection
from paceline.transport.patience import PatientConnection


class Reporter(Protocol):
    """What the launcher needs of the link."""

    def note_exit(self, exited: Exited) -> None:
        """Put an exit into the queue."""

    def call_report(
        self, timeout_s: float, *, finishing: bool = False, saving: bool = False
    ) -> LauncherOrders | JobStatus | None:
        """Report all exits; a status alone acknowledges none; None without an answer."""

    def close(self) -> None:
        """Hang up."""


@final
class CoordinatorLink:
    """A connection that is made again whenever the coordinator has come back."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._coordinator = PatientConnection(connect)
        self._exits: list[Exited] = []

    def note_exit(self, exited: Exited) -> None:
        """Put an exit into the queue; it travels until a report is answered."""
        self._exits.append(exited)

    def call_report(
        self, timeout_s: float, *, finishing: bool = False, saving: bool = False
    ) -> LauncherOrders | JobStatus | None:
        """Report all exits and learn how the job stands.

        Returns:
            A status alone while nothing can be journalled: the exits are kept, too.
            None when the coordinator could not be reached or did not answer in time;
            the exits are kept for the next report.
        """
        sent = tuple(self._exits)
        report = LauncherReport(exits=sent, finishing=finishing, saving=saving)
        try:
            answer = self._coordinator.call(report, timeout_s)
        except TransportError:
            return None
        if isinstance(answer, Refusal):
            return None
        if isinstance(answer, JobStatus):
            return answer
        assert isinstance(answer, LauncherOrders)
        del self._exits[: len(sent)]
        return answer

    def close(self) -> None:
        """Hang up."""
        self._coordinator.close()
