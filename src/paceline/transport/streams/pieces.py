"""Frames through a socket, piece by piece.

A frame may come in a thousand pieces, read by a thousand calls from different threads: what
has come so far is kept here. The payload goes straight into the memory that `Place` names;
no byte of it is copied in this process. Where a socket does not block, what is sent is
bounded by a credit::

    send(frame) -> the kernel takes it all                      the usual case
                -> it takes a part; the peer reads along        wait a few milliseconds
                -> it takes a part; the peer is busy            copy the rest, queue it
                -> more than the credit waits behind the first  the peer does not read

While anything is queued no request is read from the peer (`link`), so that only replies
to requests that were parked meanwhile can come behind the first. The wait is there because
a peer that waits for a large reply empties the socket as fast as it is filled: then nothing
is copied. A peer that is behind already is not waited for.

Waits: in `wait_events`; in `Outbox.send`, for the peer to read, at most the patience;
elsewhere only for a socket that blocks. One thread at a time receives, as the caller sees
to; any may send.
"""

import itertools
import math
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import msgspec

from paceline.errors import PeerLost
from paceline.timing import Clock, Deadline
from paceline.transport.frames import (
    CHECKSUM_BYTES,
    PREAMBLE_BYTES,
    ByteArray,
    Header,
    Kind,
    Limits,
    Preamble,
    Room,
    allocate,
    parse_header,
    parse_preamble,
    require_whole,
)
from paceline.transport.streams.checks import FrameCheck
from paceline.transport.streams.sealed import Sealed

_DESCRIPTOR = struct.Struct("i")
MAX_PIECES = 1024  # IOV_MAX: the most that one scatter or gather call takes

AnySocket = socket.socket | Sealed
Placed = tuple[msgspec.Struct | None, list[ByteArray]]

Place = Callable[[Preamble, Header], Placed]
"""Decodes the message of a frame and says where its payload goes; None as message: nobody
wants it."""


class Frame(NamedTuple):
    """A frame that has come in whole."""

    kind: Kind
    request_id: int
    message: msgspec.Struct | None
    buffers: list[ByteArray]
    room: Room | None = None  # where the buffers of the reply are wanted


@final
class FrameReader:
    """The receiving state of one connection."""

    def __init__(
        self, limits: Limits, place: Place, *, takes_descriptors: bool = False
    ) -> None:
        """Begin between two frames; over a Unix socket descriptors may come along."""
        self._limits = limits
        self._place = place
        self.descriptors: list[int] = []  # that came along, the owner's to take
        self._takes_descriptors = takes_descriptors
        self._check = FrameCheck() if limits.is_checked else None
        self._preamble_data = bytearray(PREAMBLE_BYTES)
        self._missing: deque[memoryview] = deque()  # never an empty view
        self._begin()

    def receive(self, source: AnySocket) -> Frame | None:
        """Read until a frame is whole, or until nothing more is there (None).

        Raises:
            PeerLost: the stream has ended.
            FrameRefused: a frame broke the format or a limit; read no further.
        """
        while self._fill(source):
            frame = self._next_part()
            if frame is not None:
                return frame
        return None

    def give_up(self, request_id: int) -> None:
        """From now on write no byte into the memory of this request's landing."""
        if self._frame is not None and self._frame.request_id == request_id:
            checksum = [self._missing.pop()] if self._check and self._missing else []
            rest = sum(view.nbytes for view in self._missing)
            self._missing.clear()
            self._expect([allocate((rest,))[0].data, *checksum])

    def _begin(self) -> None:
        self._preamble: Preamble | None = None
        self._header_data = bytearray()
        self._frame: Frame | None = None
        self._missing.append(memoryview(self._preamble_data))

    def close(self) -> None:
        """Let go of half a frame, and of who was to place it; nothing is read any more."""
        self._missing.clear()
        self._frame, self._place = None, _place_nothing

    def _fill(self, source: AnySocket) -> bool:
        """Receive into what is missing; whether nothing is missing any more."""
        while self._missing:
            try:
                count = self._receive_some(source)
            except BlockingIOError:
                return False
            except OSError as error:
                raise PeerLost(f"receiving failed: {error}") from error
            if count == 0:
                raise PeerLost("the other end has closed the connection")
            if self._check is not None:
                self._check.came(self._missing, count)
            drop_front(self._missing, count)
        return True

    def _receive_some(self, source: AnySocket) -> int:
        if len(self._missing) == 1 and not self._takes_descriptors:
            return source.recv_into(self._missing[0])
        pieces = itertools.islice(self._missing, MAX_PIECES)
        if not self._takes_descriptors:
            return source.recvmsg_into(pieces)[0]
        count, ancillary, _, _ = source.recvmsg_into(
            pieces, socket.CMSG_SPACE(_DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(data) - len(data) % _DESCRIPTOR.size
                self.descriptors += [fd for (fd,) in _DESCRIPTOR.iter_unpack(data[:whole])]
        return count

    def _next_part(self) -> Frame | None:
        """Look at the part that is whole and expect the next; the frame after the last."""
        if self._preamble is None:
            checksum_bytes = 0
            if self._check is not None:  # the version has been agreed on
                require_whole(self._preamble_data)
                checksum_bytes = CHECKSUM_BYTES
            self._preamble = parse_preamble(self._preamble_data, self._limits)
            self._header_data = bytearray(self._preamble.header_bytes + checksum_bytes)
            self._expect([memoryview(self._header_data)])
            return None
        if self._frame is None:
            self._begin_payload(self._preamble)
        elif self._check is not None:
            self._check.require_whole()
        if self._missing:
            return None
        frame = self._frame
        self._begin()
        return frame

    def _begin_payload(self, preamble: Preamble) -> None:
        data: bytearray | memoryview = self._header_data
        if self._check is not None:
            data = self._check.header_of(self._preamble_data, self._header_data)
        header = parse_header(data, preamble, self._limits)
        message, buffers = self._place(preamble, header)
        self._frame = Frame(
            preamble.kind, preamble.request_id, message, buffers, header.room
        )
        if header.place is None:
            self._expect([buffer.data for buffer in buffers])
            if self._check is not None:
                self._expect(self._check.expect(preamble.payload_bytes))

    def _expect(self, views: Sequence[memoryview]) -> None:
        self._missing.extend(view for view in views if view.nbytes)


def _place_nothing(preamble: Preamble, header: Header) -> Placed:
    raise AssertionError(f"a closed reader reads {preamble} and {header}")


def drop_front(views: deque[memoryview], count: int) -> None:
    """Drop the first ``count`` bytes of a row of views, none of which is empty."""
    while count:
        first = views[0]
        if first.nbytes > count:
            views[0] = first[count:]
            return
        count -= first.nbytes
        views.popleft()


def wait_events(sock: AnySocket, wanted: int, timeout_s: float) -> int:
    """Wait until the kernel has something of this, as `select.poll` says it: what it has.

    That may be more than was wanted: the end of the stream.
    """
    if isinstance(sock, Sealed):
        if wanted & select.POLLIN and sock.has_unread():
            return select.POLLIN
        wanted = sock.needs(wanted)
    poll = select.poll()
    poll.register(sock, wanted)
    return sum(found for _, found in poll.poll(math.ceil(timeout_s * 1000)))


def send_some(
    sink: AnySocket, pieces: deque[memoryview], descriptors: Sequence[int] = ()
) -> int:
    """Give the kernel as much as it takes now; what has gone leaves ``pieces``.

    Descriptors go along with the first byte, over a Unix socket. How many bytes have gone
    is returned; `PeerLost`: the stream has ended.
    """
    sent = 0
    along: list[tuple[int, int, bytes]] = []
    if descriptors:
        packed = struct.pack(f"{len(descriptors)}i", *descriptors)
        along.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, packed))
    while pieces:
        try:
            if len(pieces) == 1 and not along:
                count = sink.send(pieces[0], socket.MSG_NOSIGNAL)
            else:
                batch = itertools.islice(pieces, MAX_PIECES)
                count = sink.sendmsg(batch, [] if sent else along, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            break
        except OSError as error:
            raise PeerLost(f"sending failed: {error}") from error
        drop_front(pieces, count)
        sent += count
    return sent


@final
class Outbox:
    """What one connection of a listener still has to send."""

    def __init__(
        self, sink: AnySocket, credit_bytes: int, patience_s: float, clock: Clock
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
        the outbox is closed. False when the credit is exhausted: the frame was not taken,
        close the connection.

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
        """Send what the kernel takes of the queue; `PeerLost`: the stream has ended."""
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
        while rest and wait_events(self._sink, select.POLLOUT, patience.remaining_s()):
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
