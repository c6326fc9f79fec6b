"""Frames out of a socket, piece by piece.

A frame may come in a thousand pieces, read by a thousand calls from different threads: what
has come so far is kept here. The payload goes straight into the memory that `Place` names;
no byte of it is copied in this process.

Waits in `wait_readable`, and elsewhere only for a socket that blocks. One thread at a time;
the caller sees to that.
"""

import itertools
import math
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import msgspec

from paceline.errors import PeerLost
from paceline.transport.frames import (
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
)

_DESCRIPTOR = struct.Struct("i")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_DESCRIPTOR.size)  # of one descriptor
MAX_PIECES = 1024  # IOV_MAX: the most that one scatter or gather call takes

Placed = tuple[msgspec.Struct | None, list[ByteArray]]

Place = Callable[[Preamble, Header], Placed]
"""Decodes the message of a frame and says where its payload goes; None as message: nobody
wants it."""


Wait = Callable[[socket.socket, float], bool]
"""Waits at most so many seconds; whether there is something to receive."""


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
        self._preamble_data = bytearray(PREAMBLE_BYTES)
        self._missing: deque[memoryview] = deque()  # never an empty view
        self._begin()

    def receive(self, source: socket.socket) -> Frame | None:
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
            rest = sum(view.nbytes for view in self._missing)
            self._missing = deque([allocate((rest,))[0].data])

    def _begin(self) -> None:
        self._preamble: Preamble | None = None
        self._header_data = bytearray()
        self._frame: Frame | None = None
        self._missing.append(memoryview(self._preamble_data))

    def close(self) -> None:
        """Let go of half a frame, and of who was to place it; nothing is read any more."""
        self._missing.clear()
        self._frame, self._place = None, _place_nothing

    def _fill(self, source: socket.socket) -> bool:
        """Receive into what is missing; whether nothing is missing any more."""
        while self._missing:
            try:
                pieces = list(itertools.islice(self._missing, MAX_PIECES))
                count = self._receive_into(source, pieces)
            except BlockingIOError:
                return False
            except OSError as error:
                raise PeerLost(f"receiving failed: {error}") from error
            if count == 0:
                raise PeerLost("the other end has closed the connection")
            drop_front(self._missing, count)
        return True

    def _receive_into(self, source: socket.socket, pieces: list[memoryview]) -> int:
        if not self._takes_descriptors:
            return source.recvmsg_into(pieces)[0]
        count, ancillary, _, _ = source.recvmsg_into(
            pieces, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(data) - len(data) % _DESCRIPTOR.size
                self.descriptors += [fd for (fd,) in _DESCRIPTOR.iter_unpack(data[:whole])]
        return count

    def _next_part(self) -> Frame | None:
        """Look at the part that is whole and expect the next; the frame after the last."""
        if self._preamble is None:
            self._preamble = parse_preamble(self._preamble_data, self._limits)
            self._header_data = bytearray(self._preamble.header_bytes)
            self._expect([memoryview(self._header_data)])
            return None
        if self._frame is None:
            header = parse_header(self._header_data, self._preamble, self._limits)
            message, buffers = self._place(self._preamble, header)
            kind, request_id = self._preamble.kind, self._preamble.request_id
            self._frame = Frame(kind, request_id, message, buffers, header.room)
            if header.place is None:
                self._expect([buffer.data for buffer in buffers])
        if self._missing:
            return None
        frame = self._frame
        self._begin()
        return frame

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


def wait_readable(source: socket.socket, timeout_s: float) -> bool:
    """Wait until there is something to receive, or the end of the stream."""
    return _wait(source, select.POLLIN, timeout_s)


def wait_writable(sink: socket.socket, timeout_s: float) -> bool:
    """Wait until the kernel takes more."""
    return _wait(sink, select.POLLOUT, timeout_s)


def wait_ready(sock: socket.socket, timeout_s: float) -> bool:
    """Wait until the kernel takes more or there is something to receive; if the latter."""
    return _wait(sock, select.POLLIN | select.POLLOUT, timeout_s, ~select.POLLOUT)


def _wait(sock: socket.socket, event: int, timeout_s: float, wanted: int = ~0) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return any(found & wanted for _, found in poll.poll(math.ceil(timeout_s * 1000)))
