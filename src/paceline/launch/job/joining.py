"""Asking a running job by who has no folder of it: at its launcher's door.

::

    AskPlace  -> the run, and where its coordinator is; that is asked as by anybody else
    AskLogs   -> the launcher's logs, piece by piece

The door is where other machines join, and so there is one only with ``--listen``.

Waits: for the launcher, `ANSWER_S` at most.
"""

from contextlib import closing
from typing import NamedTuple, TypeVar, final

from paceline.errors import ForeignPeer, PeerLost, TransportError, UsageError
from paceline.ids import OPERATOR
from paceline.launch.job.wiring import Wires, way_of
from paceline.messages.hosts import (
    AskLog,
    AskLogs,
    AskPlace,
    JobPlace,
    LogPiece,
    LogSizes,
)
from paceline.messages.shared import Message, Refusal
from paceline.timing import Clock, Deadline
from paceline.transport.address import TcpAddress
from paceline.transport.handshake import Secret
from paceline.transport.patience import PatientConnection

ANSWER_S = 5.0

_T = TypeVar("_T", bound=Message)


class JobDoor(NamedTuple):
    """A job by its launcher's address; does not print the secret."""

    launcher: TcpAddress
    secret: Secret
    is_plain: bool = False  # between machines without TLS

    @property
    def name(self) -> str:
        """As a user writes it."""
        return str(self.launcher).removeprefix("tcp:")

    def place(self, clock: Clock) -> JobPlace:
        """Where its coordinator is.

        Raises:
            UsageError: no launcher lets anybody in there, or it is of another secret.
            TransportError: it does not answer.
        """
        with closing(DoorLogs(self, clock)) as door:
            return door.ask(AskPlace(), JobPlace)


@final
class DoorLogs:
    """The logs of a job as its launcher shows them, over one connection."""

    def __init__(self, job: JobDoor, clock: Clock) -> None:
        """Connect when something is asked."""
        self._job, self._clock = job, clock
        way = way_of(is_plain=job.is_plain)
        wires = Wires("", OPERATOR, clock, secret=job.secret, way=way)
        self._link = PatientConnection(lambda: wires.look_in(str(job.launcher)))

    def sizes(self) -> dict[str, int]:
        """All logs, {name: bytes}; raises as of `JobDoor.place`."""
        return self.ask(AskLogs(), LogSizes).sizes

    def is_over(self) -> bool:
        """Whether they grow no more; raises as of `JobDoor.place`."""
        return self.ask(AskLogs(), LogSizes).is_over

    def read(self, name: str, offset: int) -> bytes:
        """A piece of a log, empty at its end; raises as of `JobDoor.place`."""
        return self.ask(AskLog(name=name, offset=offset), LogPiece).text

    def close(self) -> None:
        """Hang up: the launcher does not wait for who has gone."""
        self._link.close()

    def ask(self, message: Message, kind: type[_T]) -> _T:
        """Ask the launcher.

        Raises:
            UsageError: no launcher lets anybody in there, it is of another secret, or
                refuses to answer.
            TransportError: it does not answer.
        """
        try:
            deadline = Deadline(self._clock, ANSWER_S)
            answer = self._link.wait_answer(message, deadline, lambda: None)
        except ForeignPeer as error:
            raise UsageError(str(error)) from error
        except PeerLost as error:
            raise UsageError(
                f"no job is reached at {self._job.name}: it is over, or was started "
                "without --listen and is asked by its folder, on its own machine "
                f"({error})"
            ) from error
        if isinstance(answer, Refusal):
            raise UsageError(answer.text)
        if not isinstance(answer, kind):
            raise TransportError(f"expected {kind.__name__} of the launcher, got {answer}")
        return answer
