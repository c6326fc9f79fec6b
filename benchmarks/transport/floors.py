"""What no transport can beat: copying the same bytes, and a bare Unix socket.

::

    memcpy   np.copyto, one thread, every page touched: no other process at all
    socket   blocking sendall and recv_into, no header, no check, nothing decided; a Unix
             socket, or TCP

Only NumPy and the standard library.
"""

import socket
import time
from pathlib import Path
from typing import final

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

PULL, PUSH = 0, 2  # the first byte of a request is one of them plus the arena's number
CONNECT_S = 60.0


@final
class CopyLink(Link):
    """Copies within this process."""

    def __init__(self, plan: Plan) -> None:
        self._arenas = arenas(plan)

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        np.copyto(into, self._arenas[arena])

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        np.copyto(self._arenas[arena], values)


@final
class SocketLink(Link):
    """One byte asks, the bytes themselves follow."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def pull(self, arena: int, into: Bytes) -> None:
        """See `Link`."""
        self._sock.sendall(bytes([PULL + arena]))
        receive(self._sock, into)

    def push(self, arena: int, values: Bytes) -> None:
        """See `Link`."""
        self._sock.sendall(bytes([PUSH + arena]))
        self._sock.sendall(values.data)
        receive(self._sock, np.empty(1, np.uint8))


def receive(sock: socket.socket, into: Bytes) -> None:
    """Fill ``into``.

    Raises:
        EOFError: the other end has closed.
    """
    view = memoryview(into)  # type: ignore[arg-type]  # the stub knows no buffers
    while view:
        count = sock.recv_into(view)
        if not count:
            raise EOFError("the other end has closed")
        view = view[count:]


def fresh_socket(place: str) -> tuple[socket.socket, str | tuple[str, int]]:
    """A socket, and the address of a place for it."""
    if not place.startswith("tcp:"):
        return socket.socket(socket.AF_UNIX), str(Path(place) / "s.sock")
    host, _, port = place.removeprefix("tcp:").rpartition(":")
    return socket.socket(socket.AF_INET), (host, int(port))


def serve(place: str, plan: Plan) -> None:
    """Hold the arenas for one client."""
    held = arenas(plan)
    request = np.empty(1, np.uint8)
    door, address = fresh_socket(place)
    with door:
        door.bind(address)
        door.listen(1)
        sock, _ = door.accept()
    with sock:
        quicken(sock)
        while True:
            try:
                receive(sock, request)
            except EOFError:
                return
            if request[0] < PUSH:
                sock.sendall(held[request[0] - PULL].data)
            else:
                receive(sock, held[request[0] - PUSH])
                sock.sendall(b"k")


def quicken(sock: socket.socket) -> None:
    """Let TCP send small pieces at once."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def wait_socket(place: str) -> socket.socket:
    """Connect, as soon as somebody listens.

    Raises:
        TimeoutError: nobody does within `CONNECT_S`.
    """
    stop_s = time.monotonic() + CONNECT_S
    while time.monotonic() < stop_s:
        sock, address = fresh_socket(place)
        try:
            sock.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            sock.close()
            time.sleep(0.05)
        else:
            quicken(sock)
            return sock
    raise TimeoutError(f"nobody listens at {place} after {CONNECT_S:g} s")


def main() -> None:
    """Be the client or the server; without a place, copy."""
    role, place, plan, out = read_flags(__doc__ or "")
    if not place:
        write_result(out, measure(CopyLink(plan), plan))
    elif role == "server":
        serve(place, plan)
    else:
        with wait_socket(place) as sock:
            write_result(out, measure(SocketLink(sock), plan))


if __name__ == "__main__":
    main()
