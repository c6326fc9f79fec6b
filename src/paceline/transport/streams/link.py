"""The listener's end of one connection.

Two kinds of threads meet here. One thread of the listener *attends* the link at a time: it
reads, calls the service, and in the end arms the link again or drops it. Any thread may
reply meanwhile. Only the attending thread closes the socket; everybody else who finds the
link lost shuts it down, which brings an attending thread about.

Waits: only as `Outbox.send` says. Any thread may call what does not say otherwise.
"""

import contextlib
import os
import select
import socket
import threading
from collections.abc import Sequence
from typing import Any, final

import msgspec

from paceline.errors import FrameRefused, TransportError
from paceline.timing import Deadline
from paceline.transport.frames import (
    HANDSHAKE_LIMITS,
    Buffer,
    ByteArray,
    Header,
    InMailbox,
    Kind,
    Limits,
    Preamble,
    allocate,
    byte_array,
    encode_frame,
    spread,
)
from paceline.transport.greeting import Reception
from paceline.transport.handshake import FROM_CLIENT, Farewell
from paceline.transport.mailbox import MAILBOX_OFFER, Incoming, MailboxOffer, find
from paceline.transport.requests import decode_message
from paceline.transport.service import Peer
from paceline.transport.streams.pieces import (
    AnySocket,
    Frame,
    FrameReader,
    Outbox,
    Placed,
)
from paceline.transport.streams.sealed import Sealed

_REASON_CHARACTERS = 2000


@final
class Link:
    """A socket with its partial frames, its unsent replies, and who is at the other end."""

    def __init__(
        self,
        sock: AnySocket,
        origin: str,
        reception: Reception,
        greeting: Deadline,
        epoll: "select.epoll",  # Linux has it
        outbox: Outbox,
    ) -> None:
        """Take over an accepted socket that must shake hands by ``greeting``."""
        self.fd = sock.fileno()
        self.origin = origin  # where it comes from, for the log
        self.reception = reception  # by the attending thread, before the peer is known
        self.greeting = greeting
        self.peer: Peer | None = None  # by the attending thread; None until it is welcome
        self.limits = HANDSHAKE_LIMITS
        self._socket = sock
        self._sealed = sock if isinstance(sock, Sealed) else None
        self._epoll = epoll
        self._outbox = outbox
        self._decoder: msgspec.msgpack.Decoder[Any] = FROM_CLIENT
        self._reader = FrameReader(HANDSHAKE_LIMITS, self._place)  # by the attending thread
        self._is_unix = sock.family == socket.AF_UNIX
        self._mailbox: Incoming | None = None  # by the attending thread
        # Guards the three fields below, and arming: a socket is armed only while nobody
        # attends it and before it is closed.
        self._lock = threading.Lock()
        self._is_attended = False
        self._is_dropped = False
        self._parting: str | None = None  # why a farewell is being said
        self.loss: str | None = None  # set once: a counter of `StreamListener`

    def begin(self) -> bool:
        """Attend the link; false if somebody does already (who will arm it again)."""
        with self._lock:
            if self._is_attended or self._is_dropped:
                return False
            self._is_attended = True
            return True

    def end(self) -> bool:
        """Stop attending and arm the link; false if it is lost and must be dropped."""
        with self._lock:
            if self.loss is not None:
                return False
            self._is_attended = False
            self._arm()
            return True

    def may_flush(self, events: int) -> bool:
        """Whether these events may let queued replies go."""
        return bool(events & select.EPOLLOUT) or self._sealed is not None

    def may_receive(self, events: int) -> bool:
        """Whether these events may let something come in, or tell of the end."""
        if self._sealed is None:
            return bool(events & ~select.EPOLLOUT)
        if self._outbox.is_empty:
            return self._sealed.may_read(events)
        return bool(events & ~(select.EPOLLIN | select.EPOLLOUT))

    def greeted(
        self, peer: Peer, decoder: msgspec.msgpack.Decoder[msgspec.Struct], limits: Limits
    ) -> None:
        """The other end has introduced itself; from now on it sends requests."""
        self._decoder = decoder
        self.limits = limits
        self._reader = FrameReader(limits, self._place, takes_descriptors=self._is_unix)
        self.peer = peer

    def receive(self) -> Frame | None:
        """Read what is there, up to one frame; by the attending thread.

        Raises:
            TransportError: as `FrameReader.receive`.
        """
        frame = self._reader.receive(self._socket)
        if frame is not None and frame.kind is not Kind.MAILBOX:
            self._drop_descriptors()
        return frame

    def take_mailbox(self, frame: Frame) -> None:
        """Find the buffers of later requests in the file that came with a frame.

        Raises:
            FrameRefused: it is no mailbox.
        """
        try:
            if (
                not isinstance(frame.message, MailboxOffer)
                or len(self._reader.descriptors) != 1
            ):
                raise FrameRefused(
                    f"expected a mailbox and one descriptor, got {frame.message} and "
                    f"{len(self._reader.descriptors)}"
                )
            self._mailbox = Incoming(self._reader.descriptors[0], frame.message)
        finally:
            self._drop_descriptors()

    def send(self, pieces: Sequence[memoryview]) -> None:
        """Send a frame; a link that fails at it is lost, and the sender is not told."""
        try:
            if not self._outbox.send(pieces):
                self.lose("slow")
        except TransportError:
            self.lose("gone")
        with self._lock:  # have the rest attended to, unless somebody is about to arm
            if not self._outbox.is_empty and not self._is_attended and not self._is_dropped:
                self._arm()

    def flush(self) -> None:
        """Send what is queued; by the attending thread."""
        try:
            self._outbox.flush()
        except TransportError:
            self.lose("gone")

    def say_farewell(self, reason: str, loss: str, *, is_foreign: bool = False) -> None:
        """Tell the other end why, once and as far as it listens, and lose the link."""
        farewell = Farewell(reason[:_REASON_CHARACTERS], is_foreign)
        with self._lock:
            if self._parting is not None or self.loss is not None:
                return
            self._parting = loss
        limits = HANDSHAKE_LIMITS._replace(is_checked=self.limits.is_checked)
        self.send(encode_frame(Kind.ERROR, 0, farewell, (), limits))
        self.lose(loss)

    def lose(self, loss: str) -> None:
        """Nothing is sent or received any more; an attending thread will drop the link."""
        with self._lock:
            if self.loss is None:
                self.loss = self._parting or loss  # who hears a farewell may be quicker
            if not self._is_dropped:
                with contextlib.suppress(OSError):  # the other end may have been quicker
                    self._socket.shutdown(socket.SHUT_RDWR)

    def drop(self) -> None:
        """Close the socket; by the attending thread, or when no thread is left."""
        with self._lock:
            self._is_dropped = True
            self._epoll.unregister(self.fd)
            self._outbox.close()
            self._drop_descriptors()
            # At once: a server makes too little garbage for a collector to come by.
            self._reader.close()
            self._mailbox = None

    def _arm(self) -> None:
        # Who has not taken its replies is asked for no more requests: one that reads
        # slowly costs the replies that it waits for, however much it asks for.
        event = select.EPOLLIN if self._outbox.is_empty else select.EPOLLOUT
        if self._sealed is not None:
            event = self._sealed.needs(event)
        self._epoll.modify(self.fd, event | select.EPOLLONESHOT)

    def _place(self, preamble: Preamble, header: Header) -> Placed:
        if preamble.kind is Kind.MAILBOX:
            return decode_message(MAILBOX_OFFER, header), []
        message = decode_message(self._decoder, header)
        if header.place is None:
            return message, allocate(header.sizes)
        if self._mailbox is None:
            raise FrameRefused("a frame names a place, and no mailbox was offered")
        return message, self._mailbox.find(header.place, header.sizes, self.limits)

    def reply(self, frame: Frame) -> "LinkReply":
        """The way back of a request.

        Raises:
            FrameRefused: the room for its reply lies beyond the mailbox.
        """
        start, num_bytes = frame.room or (0, 0)
        room = allocate((0,))[0]
        if self._mailbox is not None and num_bytes:
            [room] = self._mailbox.find(start, [num_bytes], self.limits)
        return LinkReply(self, frame.request_id, room, start)

    def _drop_descriptors(self) -> None:
        while self._reader.descriptors:
            os.close(self._reader.descriptors.pop())


@final
class LinkReply:
    """The way back of one request over a link."""

    def __init__(self, link: Link, request_id: int, room: ByteArray, start: int) -> None:
        """Not answered yet.

        In the link's mailbox there is ``room`` for the reply's buffers (or none) from
        ``start`` on.
        """
        self._link = link
        self._request_id = request_id
        self._room, self._start = room, start
        self._is_given = False

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        """See `Reply`."""
        assert not self._is_given, f"request {self._request_id} is answered twice"
        link = self._link
        pieces = encode_frame(
            Kind.REPLY, self._request_id, message, buffers, link.limits, self._put
        )
        self._is_given = True
        link.send(pieces)

    def is_awaited(self) -> bool:
        """See `LosableReply.is_awaited`."""
        return self._link.loss is None

    def places(self, sizes: Sequence[int]) -> list[ByteArray]:
        """See `RoomyReply.places`."""
        if spread(sizes)[1] > len(self._room):
            return allocate(sizes)
        return find(self._room, 0, sizes)

    def _put(self, views: Sequence[memoryview]) -> InMailbox:
        sizes = [view.nbytes for view in views]
        # No room is none for empty buffers, too, though they would fit.
        if not sizes or not len(self._room) or spread(sizes)[1] > len(self._room):
            return InMailbox()
        for place, view in zip(find(self._room, 0, sizes), views, strict=True):
            source = byte_array(view)
            if source.ctypes.data != place.ctypes.data:
                place[:] = source
        return InMailbox(self._start)
