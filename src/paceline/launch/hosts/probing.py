"""One machine tries another: whether frames pass, small and large, how soon, how fast.

::

    connect               as any role does: TLS, the secret
    Echo, empty           a few times; the shortest round trip
    Echo of 64 KiB        many packets as large as the path is said to take
    Echo of 1 MiB         again and again for half a second

A path of which a part takes only packets smaller than both ends send (tunnels, overlays,
jumbo frames on one side) drops these without a word: small frames pass, large do not.

Waits: `probe`, for about half a minute at most.
"""

from collections.abc import Callable
from typing import Final, final

import msgspec

from paceline.errors import ForeignPeer, TransportError, UsageError
from paceline.messages.hosts import Echo, Echoed, ProbeResult
from paceline.messages.shared import Refusal
from paceline.timing import Clock, Deadline
from paceline.transport.connection import Connection
from paceline.transport.frames import ByteArray
from paceline.transport.service import Peer, Reply

SMALL_S = 3.0
LARGE_S = 5.0  # 64 KiB in it are slower than any path that a job could use
NUM_SMALL = 5
LARGE_BYTES: Final = 64 << 10
BULK_BYTES: Final = 1 << 20
BULK_S = 0.5
BULK_ANSWER_S = 10.0


@final
class Echoes:
    """The service of a host's listener: it says what has come."""

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """See `Service.received`."""
        del peer, buffers
        if isinstance(message, Echo):
            reply(Echoed(num_bytes=len(message.load)))
        else:
            reply(Refusal(kind="invalid", text="a host only says what has come"))

    def disconnected(self, peer: Peer) -> None:
        """Whoever has dialled has seen enough."""


def probe(connect: Callable[[], Connection], clock: Clock) -> ProbeResult:
    """Try the machine that is connected to."""
    try:
        connection = connect()
    except ForeignPeer as error:
        return ProbeResult(error=f"who answers there is another one: {error}")
    except (TransportError, UsageError) as error:
        return ProbeResult(error=str(error))
    with connection:
        try:
            trips = [_trip_s(connection, 0, SMALL_S, clock) for _ in range(NUM_SMALL)]
        except TransportError as error:
            return ProbeResult(error=str(error))
        round_trip_s = min(trips)
        try:
            _trip_s(connection, LARGE_BYTES, LARGE_S, clock)
            bytes_per_s = _rate(connection, round_trip_s, clock)
        except TransportError as error:
            return ProbeResult(large_error=str(error), round_trip_s=round_trip_s)
    return ProbeResult(round_trip_s=round_trip_s, bytes_per_s=bytes_per_s)


def _rate(connection: Connection, round_trip_s: float, clock: Clock) -> float:
    """Of the fastest of several large frames: the first find out what the path takes."""
    until = Deadline(clock, BULK_S)
    best_s = float("inf")
    while not until.is_over():
        best_s = min(best_s, _trip_s(connection, BULK_BYTES, BULK_ANSWER_S, clock))
    return BULK_BYTES / max(best_s - round_trip_s, 1e-6)


def _trip_s(connection: Connection, size: int, timeout_s: float, clock: Clock) -> float:
    begun_s = clock.now_s()
    connection.call(Echo(load=bytes(size)), timeout_s=timeout_s)
    return clock.now_s() - begun_s
