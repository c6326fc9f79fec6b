"""One connection that outlives losses: made when it is needed, and again after a loss.

::

    call          one try: what fails drops the connection, and the next try makes another
    pause         a little, and longer after each try that failed
    wait_answer   tries, with pauses, until somebody answers, or nobody will any more

What is asked may arrive twice, and has to bear it.

Waits: to connect, as long as the connector does; for replies, with deadlines; in pauses.
One thread asks; any may close.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import final

import msgspec

from paceline.errors import DeadlineExceeded, PeerLost, TransportError
from paceline.timing import Deadline
from paceline.transport.connection import AtOnce, Connection

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


@final
class PatientConnection:
    """The way to one role, which may go and come back."""

    def __init__(
        self, connect: Callable[[], Connection], *, keeps_late: bool = False
    ) -> None:
        """Connect to nobody yet.

        With ``keeps_late`` a reply that does not come in time is no loss: the connection
        stays, since the other end takes hanging up for death.
        """
        self._connect, self._keeps_late = connect, keeps_late
        self._pause_s = FIRST_PAUSE_S
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards the next
        self._connection: Connection | None = None

    def call(
        self, message: msgspec.Struct, timeout_s: float, at_once: AtOnce | None = None
    ) -> msgspec.Struct:
        """Ask once; see `Connection.submit` for ``at_once``.

        Raises:
            TransportError: nobody was reached, or there was no answer in time.
        """
        try:
            connection = self._reach()
            answer = connection.call(message, timeout_s=timeout_s, at_once=at_once).message
        except TransportError as error:
            if not (self._keeps_late and isinstance(error, DeadlineExceeded)):
                self._drop()
            raise
        self._pause_s = FIRST_PAUSE_S
        return answer

    def pause(self, limit_s: float = LONGEST_PAUSE_S) -> None:
        """Wait before another try, ``limit_s`` at most; `close` ends it."""
        self._closing.wait(min(self._pause_s, limit_s))
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def wait_answer(
        self, message: msgspec.Struct, deadline: Deadline, look: Callable[[], None]
    ) -> msgspec.Struct:
        """Ask until there is an answer.

        ``look`` is called after each loss, and raises if nobody will come back.

        Raises:
            PeerLost: nobody was there until the deadline; why the last try failed.
            TransportError: asking again is in vain, or there was no answer in time.
        """
        while True:
            try:
                return self.call(message, deadline.remaining_s())
            except PeerLost:
                look()
                if deadline.is_over() or self._closing.is_set():
                    raise
            self.pause(deadline.remaining_s())

    def close(self) -> None:
        """Hang up for good; may be repeated."""
        self._closing.set()
        self._drop()

    def _reach(self) -> Connection:
        with self._lock:
            connection = self._connection
        if connection is None:
            connection = self._connect()
            with self._lock:
                self._connection = connection
        if self._closing.is_set():
            self._drop()
            raise PeerLost("this end was closed")
        return connection

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(TransportError):
                connection.close()
