"""paceline's own transport as a candidate: `listen` and `connect`, as the roles call them.

The server answers a pull from its arena and copies a push into it; a pull lands where the
caller wants it. What a parameter server decides on the way is not here (see
`benchmarks.transport.job`).
"""

import os
import threading
from pathlib import Path
from typing import final

import msgspec
import numpy as np

from benchmarks.transport.timing import (
    Bytes,
    Link,
    Plan,
    arenas,
    measure,
    read_flags,
    write_result,
)
from paceline.errors import PeerLost
from paceline.launch.job.environment import PLAIN
from paceline.launch.job.wiring import way_of
from paceline.timing import Deadline, SystemClock
from paceline.transport.connection import Connection
from paceline.transport.frames import DATA_LIMITS, ByteArray
from paceline.transport.handshake import OPEN, Hello, HelloCheck, Secret, Security
from paceline.transport.opening import connect, listen
from paceline.transport.service import Peer, Reply, places_of

RUN = "transport"
SECRET = Secret(b"the arenas are nobody's secrets!")
TIMEOUT_S = 60.0


class Fetch(msgspec.Struct, tag=True):
    """Asks for an arena's bytes."""

    arena: int


class Store(msgspec.Struct, tag=True):
    """Carries an arena's new bytes."""

    arena: int


class Touch(msgspec.Struct, tag=True):
    """Asks for nothing."""


class Fetched(msgspec.Struct, tag=True):
    """Its buffer holds an arena's bytes."""


class Stored(msgspec.Struct, tag=True):
    """They are in the arena, or there were none."""


@final
class ArenaService:
    """Two arenas behind a listener.

    ``copies``: memory that was received is the transport's again. Over TCP it is not, and
    becomes the arena.
    """

    def __init__(self, plan: Plan, *, copies: bool = True) -> None:
        self._arenas, self._copies = arenas(plan), copies

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """Give an arena's bytes, or take them if there are any."""
        del peer
        if isinstance(message, Fetch):
            arena = self._arenas[message.arena]
            if not self._copies:
                reply(Fetched(), [arena])
                return
            (place,) = places_of(reply, [arena.nbytes])
            np.copyto(place, arena)
            reply(Fetched(), [place])
        else:
            if isinstance(message, Store) and self._copies:
                np.copyto(self._arenas[message.arena], buffers[0])
            elif isinstance(message, Store):
                self._arenas[message.arena] = np.frombuffer(buffers[0], np.uint8)
            reply(Stored())

    def disconnected(self, peer: Peer) -> None:
        """Nothing to tidy."""


@final
class PacelineLink(Link):
    """A connection to the arenas."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        number = self._connection.submit(
            Fetch(arena),
            landing=lambda _, __: [into],
            reply_sizes=[into.nbytes],
            timeout_s=TIMEOUT_S,
        )
        self._connection.wait_reply(number, TIMEOUT_S)

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        self._connection.call(Store(arena), [values], timeout_s=TIMEOUT_S)


def serve(address: str, plan: Plan, security: Security) -> None:
    """Hold the arenas until killed."""
    with listen(
        address,
        ArenaService(plan, copies=security is OPEN),
        hello_check=HelloCheck(RUN, "server-0", {"trainer"}, security=security),
        request_type=lambda _: Fetch | Store | Touch,
        clock=SystemClock(),
        limits=DATA_LIMITS,
    ):
        threading.Event().wait()


def wait_link(address: str, security: Security = OPEN) -> Connection:
    """Connect, as soon as somebody listens.

    Raises:
        PeerLost: nobody does within `TIMEOUT_S`.
    """
    clock = SystemClock()
    deadline = Deadline(clock, TIMEOUT_S)
    hello = Hello(run=RUN, role="trainer-0", incarnation=1)
    while True:
        try:
            return connect(
                address, hello, Fetched | Stored, DATA_LIMITS, clock, TIMEOUT_S, security
            )
        except PeerLost:
            if deadline.is_over():
                raise
            threading.Event().wait(0.05)


def main() -> None:
    """Be the client or the server; over TCP within TLS, unless PACELINE_PLAIN says 1."""
    role, place, plan, out = read_flags(__doc__ or "")
    is_far = place.startswith("tcp:")
    address = place if is_far else f"unix:{Path(place) / 's.sock'}"
    way = way_of(is_plain=os.environ.get(PLAIN) == "1")
    security = Security(SECRET, way=way) if is_far else OPEN
    if role == "server":
        serve(address, plan, security)
    with wait_link(address, security) as connection:
        write_result(out, measure(PacelineLink(connection), plan))


if __name__ == "__main__":
    main()
