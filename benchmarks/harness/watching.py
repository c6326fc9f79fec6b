"""What goes over the connections of a process: each question with its reply.

::

    with watched() as trips:         every connection that is made from here on
        session = paceline.connect()
    trips.taken                      the trips so far, oldest first

Looks at the public calls of a connection only, so that it does not matter what is beneath
them, nor how a trainer orders its questions. One thread's trips are in the order of their
replies; adding one is all that other threads may do meanwhile.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import msgspec

from paceline.launch.job import wiring
from paceline.transport.connection import (
    SEND_TIMEOUT_S,
    Answer,
    AtOnce,
    Connection,
    Landing,
)
from paceline.transport.frames import PREAMBLE_BYTES, Buffer, byte_view
from paceline.transport.opening import connect


class Trip(NamedTuple):
    """A question and its reply; bytes are those of both frames."""

    kind: str  # of the question's message
    role: str  # who was asked
    sent_s: float  # when sending began
    received_s: float  # when the reply was here
    sent_bytes: int
    received_bytes: int
    thread: int  # who waited for it

    @property
    def seconds(self) -> float:
        """From the one to the other."""
        return self.received_s - self.sent_s


@final
class Trips:
    """What has been seen."""

    def __init__(self) -> None:
        self.taken: list[Trip] = []

    def take(self) -> list[Trip]:
        """The trips so far, which are then forgotten."""
        taken, self.taken = self.taken, []
        return taken


class _Open(NamedTuple):
    kind: str
    sent_s: float
    sent_bytes: int


@final
class WatchedConnection(Connection):
    """A connection that tells of its trips."""

    def __init__(self, connection: Connection, trips: Trips) -> None:
        super().__init__(connection.address, connection.welcome, connection._clock)
        self._connection, self._trips = connection, trips
        self._open: dict[int, _Open] = {}  # {request: its question}

    def submit(
        self,
        message: msgspec.Struct,
        buffers: Sequence[Buffer] = (),
        *,
        landing: Landing | None = None,
        reply_sizes: Sequence[int] = (),
        pen: int | None = None,
        at_once: AtOnce | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> int:
        """See `Connection.submit`."""
        sent_bytes = frame_bytes(message, buffers)
        sent_s = time.perf_counter()
        number = self._connection.submit(
            message,
            buffers,
            landing=landing,
            reply_sizes=reply_sizes,
            pen=pen,
            at_once=at_once,
            timeout_s=timeout_s,
        )
        self._open[number] = _Open(type(message).__name__, sent_s, sent_bytes)
        return number

    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        """See `Connection.wait_reply`."""
        opened = self._open.pop(request_id)
        answer = self._connection.wait_reply(request_id, timeout_s)
        received_s = time.perf_counter()
        trip = Trip(
            opened.kind,
            self.welcome.role,
            opened.sent_s,
            received_s,
            opened.sent_bytes,
            frame_bytes(answer.message, answer.buffers),
            threading.get_ident(),
        )
        self._trips.taken.append(trip)
        return answer

    def close(self) -> None:
        """See `Connection.close`."""
        self._connection.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever else there is)
        return getattr(self._connection, name)


def frame_bytes(message: msgspec.Struct, buffers: Sequence[Buffer]) -> int:
    """Bytes of a frame, but for the few that say how long its buffers are."""
    header = len(msgspec.msgpack.encode(message))
    return PREAMBLE_BYTES + header + sum(byte_view(buffer).nbytes for buffer in buffers)


@contextmanager
def watched() -> Iterator[Trips]:
    """Watch every connection that is made inside, for as long as it lives."""
    trips = Trips()

    def connect_watched(*arguments: Any, **named: Any) -> Connection:  # noqa: ANN401
        return WatchedConnection(connect(*arguments, **named), trips)

    wiring.connect = connect_watched
    try:
        yield trips
    finally:
        wiring.connect = connect
