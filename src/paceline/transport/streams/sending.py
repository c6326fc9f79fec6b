"""Frames into a socket, bounded by a credit where it does not block.

::

    send(frame) -> the kernel takes it all                      the usual case
                -> it takes a part; the peer reads along        wait a few milliseconds
                -> it takes a part; the peer is busy            copy the rest, queue it
                -> more than the credit waits behind the first  the peer does not read

While anything is queued no request is read from the peer (`link`), so that only replies
to requests that were parked meanwhile can come behind the first.

The wait is there because a peer that waits for a large reply empties the socket as fast as
it is filled: then nothing is copied. A peer that is behind already is not waited for.

Waits: in `Outbox.send`, for the peer to read, at most the patience. Any thread may call.
"""

import itertools
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from typing import final

from paceline.errors import PeerLost
from paceline.timing import Clock, Deadline
from paceline.transport.streams.receiving import MAX_PIECES, drop_front, wait_writable

# The kernel's own default fits a small fraction of a large reply, and each refill costs two
# switches between processes; more than this only leaves the cache. Capped by `wmem_max`.
_KERNEL_BUFFER_BYTES = 1 << 20


def prepare(sock: socket.socket) -> None:
    """Make a connected socket ready for frames: non-blocking, with room for large ones."""
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)


def send_some(
    sink: socket.socket, pieces: deque[memoryview], descriptors: Sequence[int] = ()
) -> int:
    """Give the kernel as much as it takes now; what has gone leaves ``pieces``.

    Descriptors go along with the first byte, over a Unix socket.

    Returns:
        The number of bytes that have gone.

    Raises:
        PeerLost: the stream has ended.
    """
    sent = 0
    while pieces:
        try:
            batch = list(itertools.islice(pieces, MAX_PIECES))
            along = [_rights(descriptors)] if descriptors and not sent else []
            count = sink.sendmsg(batch, along, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            break
        except OSError as error:
            raise PeerLost(f"sending failed: {error}") from error
        drop_front(pieces, count)
        sent += count
    return sent


def _rights(descriptors: Sequence[int]) -> tuple[int, int, bytes]:
    packed = struct.pack(f"{len(descriptors)}i", *descriptors)
    return socket.SOL_SOCKET, socket.SCM_RIGHTS, packed


@final
class Outbox:
    """What one connection of a listener still has to send."""

    def __init__(
        self, sink: socket.socket, credit_bytes: int, patience_s: float, clock: Clock
    ) -> None:
        self._sink = sink
        self._credit_bytes = credit_bytes
        self._patience_s = patience_s
        self._clock = clock
        # Guards everything below and the sending side of the socket: frames go out whole.
        self._lock = threading.Lock()
        self._queue: deque[memoryview] = deque()  # one copy per unsent frame
        self._queued_bytes = 0
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Whether everything has gone; a guess unless the caller knows better."""
        return not self._queue

    def send(self, pieces: Sequence[memoryview]) -> bool:
        """Send a frame, or queue what the kernel does not take.

        Afterwards the memory behind ``pieces`` is the caller's again. Nothing happens when
        the outbox is closed.

        Returns:
            False when the credit is exhausted: the frame was not taken, close the
            connection.

        Raises:
            PeerLost: the stream has ended.
        """
        with self._lock:
            if self._is_closed:
                return True
            rest = deque(pieces)
            if not self._queue:
                send_some(self._sink, rest)
                self._wait_sent(rest)
            return not rest or self._enqueue(rest)

    def flush(self) -> None:
        """Send what the kernel takes of the queue.

        Raises:
            PeerLost: the stream has ended.
        """
        with self._lock:
            if not self._is_closed:
                self._queued_bytes -= send_some(self._sink, self._queue)

    def close(self) -> None:
        """Drop the queue and close the socket; nobody is inside a call on it."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()
            self._sink.close()

    def _wait_sent(self, rest: deque[memoryview]) -> None:
        """Keep sending while the peer reads along and patience lasts."""
        if not rest:
            return
        patience = Deadline(self._clock, self._patience_s)
        while rest and wait_writable(self._sink, patience.remaining_s()):
            send_some(self._sink, rest)
            if patience.is_over():
                return

    def _enqueue(self, rest: deque[memoryview]) -> bool:
        """Copy and queue; the first frame has no limit but its own, those behind it do."""
        num_bytes = sum(piece.nbytes for piece in rest)
        behind = self._queued_bytes - self._queue[0].nbytes if self._queue else 0
        if self._queue and behind + num_bytes > self._credit_bytes:
            return False
        self._queue.append(memoryview(b"".join(rest)))
        self._queued_bytes += num_bytes
        return True
