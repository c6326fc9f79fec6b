"""pyzmq (REQ and REP over ipc) as a candidate of the transport benchmark.

Large frames travel without a copy of pyzmq's own, and land where the caller wants them.
"""

from typing import final

import numpy as np
import zmq

from benchmarks.transport.timing import (
    Bytes,
    Link,
    Plan,
    arenas,
    measure,
    read_flags,
    write_result,
)

PULL, PUSH = 0, 2  # a request's first byte is one of them plus the arena's number
TIMEOUT_MS = 60_000


@final
class ZmqLink(Link):
    """A REQ socket."""

    def __init__(self, sock: zmq.Socket[bytes]) -> None:
        self._sock = sock

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        self._sock.send(bytes([PULL + arena]))
        self._sock.recv_into(into)

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        self._sock.send(bytes([PUSH + arena]), zmq.SNDMORE)
        self._sock.send(values, copy=False)
        self._sock.recv()


def serve(sock: zmq.Socket[bytes], plan: Plan) -> None:
    """Hold the arenas until killed."""
    held = arenas(plan)
    while True:
        asked = sock.recv()[0]
        if asked < PUSH:
            # pyzmq's own threshold: below it a copy is cheaper than keeping track.
            arena = held[asked - PULL]
            sock.send(arena, copy=arena.nbytes < zmq.COPY_THRESHOLD)
        else:
            frame = sock.recv(copy=False)
            np.copyto(held[asked - PUSH], np.frombuffer(frame, np.uint8))
            sock.send(b"")


def main() -> None:
    """Be the client or the server."""
    role, place, plan, out = read_flags(__doc__ or "")
    context = zmq.Context(io_threads=1)
    sock = context.socket(zmq.REP if role == "server" else zmq.REQ)
    sock.rcvtimeo = sock.sndtimeo = TIMEOUT_MS
    sock.linger = 0
    if role == "server":
        sock.bind(f"ipc://{place}/s.sock")
        serve(sock, plan)
    sock.connect(f"ipc://{place}/s.sock")
    write_result(out, measure(ZmqLink(sock), plan))


if __name__ == "__main__":
    main()
