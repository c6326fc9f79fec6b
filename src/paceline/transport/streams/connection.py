"""The client's end of a stream socket.

The thread that waits for a reply polls the socket itself. While several wait, one of them
polls; whoever finds bytes reads what is there, files a whole frame under its number and
lets the others look. Partial frames stay with the connection, so a thread may leave in the
middle. Who sends reads too while the socket takes nothing.

Waits: for the listener, with a deadline. Any thread may call; a forked child may not.
"""

import contextlib
import os
import select
import socket
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import final

import msgspec

from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    FrameDamaged,
    FrameRefused,
    HandshakeRefused,
    PeerLost,
    TransportError,
)
from paceline.machine import at_fork
from paceline.timing import Clock, Deadline
from paceline.transport.connection import (
    SEND_TIMEOUT_S,
    Answer,
    AtOnce,
    Connection,
    Landing,
)
from paceline.transport.frames import (
    HANDSHAKE_LIMITS,
    Buffer,
    Header,
    Kind,
    Limits,
    Preamble,
    encode_frame,
)
from paceline.transport.greeting import Introduction
from paceline.transport.handshake import (
    FAREWELL,
    FROM_LISTENER,
    Challenge,
    Farewell,
    Hello,
    Proof,
    Welcome,
)
from paceline.transport.mailbox import Mailboxes, MailboxOffer, Outgoing
from paceline.transport.requests import OpenRequests, decode_message
from paceline.transport.shared_memory import may_share_memory
from paceline.transport.streams.answers import AnswerWait
from paceline.transport.streams.complaints import printable
from paceline.transport.streams.pieces import (
    AnySocket,
    FrameReader,
    Placed,
    send_some,
    wait_events,
)
from paceline.transport.streams.sealed import Sealed
from paceline.transport.streams.swallowed import LargeFrames

_LEAVE_TIMEOUT_S = 5.0
_OTHER_READS_S = 0.05

# Sockets of this process's connections, for `_leave_to_parent`. Changed by the threads that
# connect; each change is one step for the others.
_connected: weakref.WeakSet[AnySocket] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked process: as long as it held them, its parent would not look dead."""
    for sock in list(_connected):
        sock.close()


at_fork(after_in_child=_leave_to_parent)


def connect_stream(
    sock: AnySocket,
    address: str,
    introduction: Introduction,
    requests: OpenRequests,
    limits: Limits,
    clock: Clock,
    timeout_s: float,
) -> "StreamConnection":
    """Shake hands over a connected, non-blocking socket, which is closed if it fails.

    Raises what `paceline.transport.opening.connect` does.
    """
    try:
        welcome = _shake_hands(sock, introduction, Deadline(clock, timeout_s))
    except FrameRefused as error:
        # An address of a role that has gone may be another program's by now.
        sock.close()
        raise HandshakeRefused(
            f"{address}: what answers there is no listener of this job: {error}"
        ) from error
    except TransportError as error:
        sock.close()
        raise type(error)(f"{address}: {error}") from error
    except BaseException:
        sock.close()
        raise
    is_checked = introduction.hello.way == "plain"
    limits = limits._replace(is_checked=is_checked)
    return StreamConnection(sock, address, welcome, requests, limits, clock)


def _shake_hands(
    sock: AnySocket, introduction: Introduction, deadline: Deadline
) -> Welcome:
    """Say hello, and answer until one is welcome."""

    def place(preamble: Preamble, header: Header) -> Placed:
        if preamble.kind is Kind.ERROR:
            return decode_message(FAREWELL, header), []
        return decode_message(FROM_LISTENER, header), []

    if isinstance(sock, Sealed):
        introduction.reached(_wait_sealed(sock, deadline))
    reader = FrameReader(HANDSHAKE_LIMITS, place)
    message: Hello | Proof = introduction.hello
    while True:
        with contextlib.suppress(
            PeerLost
        ):  # turned away at the door: read the reason below
            # Small enough for an empty socket: this goes at once or not at all.
            pieces = encode_frame(Kind.HELLO, 0, message, (), HANDSHAKE_LIMITS)
            send_some(sock, deque(pieces))
        while (frame := reader.receive(sock)) is None:
            if not wait_events(sock, select.POLLIN, deadline.remaining_s()):
                raise DeadlineExceeded("no answer to a hello in time")
        said = frame.message
        if isinstance(said, Farewell):
            refused = ForeignPeer if said.is_foreign else HandshakeRefused
            raise refused(printable(said.reason))
        assert isinstance(said, Challenge | Welcome)
        answer = introduction.answer(said)
        if isinstance(answer, Welcome):
            return answer
        message = answer


def _wait_sealed(sock: Sealed, deadline: Deadline) -> bytes:
    """Where the listener is, as it shows when TLS begins."""
    while (place := sock.shake()) is None:
        if not wait_events(sock, select.POLLIN, deadline.remaining_s()):
            raise DeadlineExceeded("no answer in time to the beginning of TLS")
    return place


@final
class StreamConnection(Connection):
    """A connection over a stream socket; made by `connect_stream`."""

    def __init__(
        self,
        sock: AnySocket,
        address: str,
        welcome: Welcome,
        requests: OpenRequests,
        limits: Limits,
        clock: Clock,
    ) -> None:
        super().__init__(address, welcome, clock)
        self._socket = sock
        self._is_sealed = isinstance(sock, Sealed)
        self._large = LargeFrames(address, sock)
        _connected.add(sock)
        self._limits = limits
        self._pid = os.getpid()
        # Guards the sending side of the socket: frames go out whole.
        self._send_lock = threading.Lock()
        self._requests = requests
        is_possible = sock.family == socket.AF_UNIX and may_share_memory()
        self._mailboxes = Mailboxes(is_possible=is_possible)
        self._reader = FrameReader(limits, self._place)  # by requests.lock
        self._is_polled = False  # by requests.lock; one thread polls at a time
        self._answers = AnswerWait(sock, clock)  # by the one who polls

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
        del at_once  # the peer is another process
        if os.getpid() != self._pid:
            raise PeerLost(f"{self.address}: a forked process must connect for itself")
        deadline = Deadline(self._clock, timeout_s)
        with self._requests.lock:
            request_id = self._requests.open(message, landing)
        try:
            offer = partial(self._offer, deadline)
            put = partial(self._mailboxes.put, request_id, reply_sizes, pen, offer)
            pieces = encode_frame(
                Kind.REQUEST, request_id, message, buffers, self._limits, put
            )
            self._send(deque(pieces), deadline)
        except BaseException:
            with self._requests.lock:
                self._requests.forget(request_id)
            self._mailboxes.free(request_id)  # a listener that has half of it is lost
            raise
        return request_id

    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        """See `Connection.wait_reply`."""
        deadline = Deadline(self._clock, timeout_s)
        requests = self._requests
        while True:
            with requests.lock:
                answer = requests.take(request_id)
                if answer is not None:
                    return answer
                if deadline.is_over():
                    self._reader.give_up(request_id)
                    name = requests.forget(request_id)
                    raise DeadlineExceeded(
                        f"{self.address}: no reply to {name} within {timeout_s:.3g} s"
                        f"{self._large.why()}"
                    )
                if self._is_polled:
                    requests.wait(deadline.remaining_s())
                    continue
                self._is_polled = True
            self._poll(deadline)

    def close(self) -> None:
        """See `Connection.close`."""
        self._lose(PeerLost(f"{self.address}: the connection was closed on this side"))
        deadline = Deadline(self._clock, _LEAVE_TIMEOUT_S)
        with self._requests.lock:
            # The number of a closed descriptor may be another file's a moment later.
            while self._is_polled and not deadline.is_over():
                self._requests.wait(deadline.remaining_s())
            self._reader.close()
        with self._send_lock:
            self._socket.close()
        self._mailboxes.close()  # whoever offers one just now has lost the connection

    def _offer(self, deadline: Deadline, mailbox: Outgoing) -> None:
        """Tell the listener of a mailbox."""
        offer = MailboxOffer(mailbox.num_bytes)
        pieces = encode_frame(Kind.MAILBOX, 0, offer, (), self._limits)
        self._send(deque(pieces), deadline, [mailbox.fd])

    def _send(
        self,
        pieces: deque[memoryview],
        deadline: Deadline,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send a frame whole, or not at all, or lose the connection."""
        if not self._send_lock.acquire(timeout=deadline.remaining_s()):
            raise DeadlineExceeded(f"{self.address}: another request is still being sent")
        is_begun = False
        if self._large.is_doubted:
            self._large.sends(sum(piece.nbytes for piece in pieces))
        try:
            self._requests.raise_if_lost()
            while True:
                along = () if is_begun else descriptors
                # What could not go may be sealed, and nothing else can go in its place.
                is_begun = is_begun or self._is_sealed
                is_begun = send_some(self._socket, pieces, along) > 0 or is_begun
                if not pieces:
                    return
                if deadline.is_over():
                    raise DeadlineExceeded(
                        f"{self.address}: the peer takes no request{self._large.why()}"
                    )
                self._wait_room(deadline)
        except PeerLost as error:
            with self._requests.lock:  # file replies, and the reason, that came before
                while not self._requests.is_lost and self._receive():
                    pass
            self._requests.raise_if_lost()  # what comes of that is no reason of its own
            why = self._large.why()
            self._lose(PeerLost(f"{self.address}: {error}{why}"))
            raise PeerLost(f"{error}{why}") from error
        except BaseException:
            if is_begun:  # after half a frame nothing that follows could be understood
                self._lose(PeerLost(f"{self.address}: a request was sent only in part"))
            raise
        finally:
            self._send_lock.release()

    def _wait_room(self, deadline: Deadline) -> None:
        """Wait, for a while, until the kernel may take more; read what comes meanwhile.

        A listener reads no request while its replies are not taken: two that only send
        would wait for each other.
        """
        with self._requests.lock:
            is_other_reading, self._is_polled = self._is_polled, True
        if is_other_reading:  # it may leave at any time
            wait_s = min(deadline.remaining_s(), _OTHER_READS_S)
            wait_events(self._socket, select.POLLOUT, wait_s)
        else:
            self._poll(deadline, with_room=True)

    def _poll(self, deadline: Deadline, *, with_room: bool = False) -> None:
        """Wait for bytes in the role of the one who polls; read them, leave the role.

        ``with_room``: or until the kernel may take more.
        """
        found, seconds = 0, deadline.remaining_s()
        try:
            if with_room or self._is_sealed:
                wanted = select.POLLIN | (select.POLLOUT if with_room else 0)
                found = wait_events(self._socket, wanted, seconds)
            else:
                found = self._answers.wait(seconds)
        finally:
            with self._requests.lock:
                self._is_polled = False
                self._requests.tell()
                is_worth_it = found & ~select.POLLOUT or (found and self._is_sealed)
                if is_worth_it and not self._requests.is_lost:
                    self._receive()

    def _receive(self) -> bool:
        """Read what is there, up to one frame, and file it; whether there was one."""
        try:
            frame = self._reader.receive(self._socket)
            if frame is None:
                return False
            if frame.kind is not Kind.REPLY:
                raise FrameRefused(f"expected a reply, got a frame of kind {frame.kind}")
        except TransportError as error:
            # What was damaged on the way is whole the next time, like what was lost there.
            kind = PeerLost if isinstance(error, FrameDamaged) else type(error)
            self._lose(kind(f"{self.address}: {error}{self._large.why()}"))
            return False
        if self._large.is_doubted:
            self._large.answered()
        self._requests.file(frame.request_id, frame.message, frame.buffers)
        self._mailboxes.free(frame.request_id)
        return True

    def _place(self, preamble: Preamble, header: Header) -> Placed:
        if preamble.kind is Kind.ERROR:
            reason = decode_message(FAREWELL, header).reason
            raise PeerLost(f"the other end closed: {printable(reason)}")
        message, buffers = self._requests.place(preamble.request_id, header)
        if header.place is not None:
            mailbox = self._mailboxes.of(preamble.request_id)
            if mailbox is None:
                raise FrameRefused("a reply names a place that it was not given")
            mailbox.take(header.place, buffers)
        return message, buffers

    def _lose(self, loss: TransportError) -> None:
        """Nothing is sent or received any more; the descriptor stays until `close`."""
        with self._requests.lock:
            if self._requests.is_lost:
                return
            self._requests.lose(loss)
            if os.getpid() == self._pid:
                with contextlib.suppress(OSError):  # the other end may have been quicker
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes the one who polls
