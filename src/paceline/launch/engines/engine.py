"""What brings machines to a job: the two shapes that each engine has.

::

    Engine    what the user has said, read and checked; nothing is started
    Brought   what it has started for a job, until that is over

Pure: shapes alone.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, final

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.job import JobDir
from paceline.timing import Clock
from paceline.transport.address import TcpListening
from paceline.transport.handshake import Secret


class BroughtJob(NamedTuple):
    """For which job machines are brought, and how they join it.

    ``config``: None where there is no job, and machines are examined. ``words``: options of
    ``paceline host`` that all need. ``begins_with``: so many machines, the launcher's among
    them. ``say`` shows a line to whoever has started the job.
    """

    folder: JobDir
    config: JobConfig | None
    secret: Secret
    words: tuple[str, ...]
    begins_with: int
    say: Callable[[str], None]
    clock: Clock


class Brought(Protocol):
    """Machines that an engine brings; calls come from the launcher's thread."""

    def start(self, join: str) -> None:
        """Have them join at an address, ``10.0.0.1:7070``; returns at once.

        Raises:
            UsageError: it cannot be started.
        """

    def check(self) -> None:
        """The job has not begun yet, and still can.

        Raises:
            JobFailed: more machines are gone than it can begin without.
        """

    @property
    def ended(self) -> list[str]:
        """Machines that are gone, before they were expected to: how, in words."""

    def expect_end(self) -> None:
        """The job is over: who goes now is no news."""

    def close(self) -> None:
        """Wait until all are gone, with a bound; those that stay are ended."""


class Engine(Protocol):
    """Which machines are to be brought, and how."""

    @property
    def flag(self) -> str:
        """Which option has asked for it, for messages."""

    @property
    def leads_only(self) -> bool:
        """Whether this machine has none of the work, which those that come have."""

    def own_address(self, ports: tuple[int, int]) -> TcpListening:
        """Where a launcher listens that was told nothing of it: its machines reach that.

        Raises:
            UsageError: there is no such address, or several.
        """

    def num_machines(self, config: JobConfig | None) -> int:
        """So many machines come before the job begins; None: there is no job."""

    def options(self) -> list[str]:
        """As the command line says it, for the run that goes on."""

    def bring(self, job: BroughtJob) -> Brought:
        """What is to bring them; nothing is started yet."""


@final
class NoEngine:
    """Nobody is brought: machines come by themselves, or none do."""

    flag = ""
    leads_only = False

    def __init__(
        self,
        machines: int = 1,
        tell: Callable[[str, Secret], None] = lambda *_: None,
    ) -> None:
        """With so many ``machines`` a job begins, this one among them.

        ``tell`` is called with where they join, ``10.0.0.1:7070``, and the run's secret.
        """
        self._machines, self._tell = machines, tell

    def num_machines(self, config: JobConfig | None) -> int:  # noqa: ARG002
        """See `Engine`."""
        return self._machines - 1

    def own_address(self, ports: tuple[int, int]) -> TcpListening:  # noqa: ARG002
        """See `Engine`: who waits for machines says where they find this one."""
        raise UsageError(
            "--listen: nobody brings machines; name the address that they join"
        )

    def options(self) -> list[str]:
        """See `Engine`: none, since nobody is brought to the next run either."""
        return []

    def bring(self, job: BroughtJob) -> "_Nobody":
        """See `Engine`."""
        return _Nobody(job.secret, self._tell)


@final
class _Nobody:
    """See `Brought`: nobody, who neither fails nor ends."""

    ended: list[str] = []  # noqa: RUF012  (nobody adds to it)

    def __init__(self, secret: Secret, tell: Callable[[str, Secret], None]) -> None:
        self._secret, self._tell = secret, tell

    def start(self, join: str) -> None:
        """See `Brought`."""
        self._tell(join, self._secret)

    def check(self) -> None:
        """See `Brought`."""

    def expect_end(self) -> None:
        """See `Brought`."""

    def close(self) -> None:
        """See `Brought`."""
