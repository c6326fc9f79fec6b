"""Many connections on few threads.

::

    epoll  (each socket armed for one event)
      |  one thread gets the event, nobody else
      v
    read what is there -> a frame is whole? -> call the service, inline -> arm again

The threads take turns at one epoll (leader and followers: Schmidt et al., POSA 2), so a
thousand connections need no more threads than one, and a small request is answered by the
thread that read it. Half a frame keeps no thread: its state stays with the link. Requests
of one connection are served one after the other, in order.

Waits: for events. `UnixListener.close` waits for its threads, so the service must not call
it.
"""

import collections
import logging
import os
import select
import socket
import threading
from typing import final

import msgspec

from paceline.errors import (
    DeadlineExceeded,
    FrameRefused,
    HandshakeRefused,
    PeerLost,
    TransportError,
)
from paceline.timing import Clock, Deadline
from paceline.transport.address import parse_unix_address
from paceline.transport.binding import bind_unix, file_identity, is_same_user
from paceline.transport.frames import (
    DATA_LIMITS,
    HANDSHAKE_LIMITS,
    Kind,
    Limits,
    encode_frame,
)
from paceline.transport.handshake import Hello, HelloCheck
from paceline.transport.link import Link, LinkReply
from paceline.transport.listener import DEFAULT_BOUNDS, Bounds, Listener, RequestType
from paceline.transport.receiving import Frame
from paceline.transport.sending import Outbox, prepare
from paceline.transport.service import Peer, Service

logger = logging.getLogger("paceline.transport")


@final
class UnixListener(Listener):
    """Listens at a Unix socket, in a folder that is only ours."""

    def __init__(
        self,
        address: str,
        service: Service,
        *,
        hello_check: HelloCheck,
        request_type: RequestType,
        clock: Clock,
        limits: Limits = DATA_LIMITS,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Bind and start the threads.

        Raises:
            UsageError: as `bind_unix`.
        """
        super().__init__(address)
        self._service = service
        self._hello_check = hello_check
        self._request_type = request_type
        self._clock = clock
        self._limits = limits
        self._bounds = bounds
        where = parse_unix_address(address)
        self._path = where.path
        self._door = bind_unix(where)
        self._file = file_identity(where.path)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._door, select.EPOLLIN | select.EPOLLONESHOT)
        # Guards changes of the five fields below; single reads need no lock.
        self._lock = threading.Lock()
        self._links: dict[int, Link] = {}  # {descriptor: link}
        self._counts: collections.Counter[str] = collections.Counter()
        self._last_connection = 0
        self._look_around_at = Deadline(clock, self._look_around_s)
        self._is_closing = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"paceline-listen-{n}", daemon=True)
            for n in range(bounds.num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def counters(self) -> dict[str, int]:
        """See `Listener.counters`."""
        with self._lock:
            return dict(self._counts)

    def close(self, timeout_s: float = 5.0) -> None:
        """See `Listener.close`."""
        assert threading.current_thread() not in self._threads, (
            "a service closed its listener"
        )
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
            links = list(self._links.values())
        os.eventfd_write(self._wake, 1)  # never read: it wakes every thread, one by one
        for link in links:
            link.lose("gone")
        if file_identity(self._path) == self._file:
            os.unlink(self._path)
        deadline = Deadline(self._clock, timeout_s)
        for thread in self._threads:
            thread.join(deadline.remaining_s())
        self._door.close()
        busy = [thread.name for thread in self._threads if thread.is_alive()]
        if busy:
            raise DeadlineExceeded(
                f"{self.address}: the service is still busy in {', '.join(busy)} after "
                f"{timeout_s:.3g} s"
            )
        for link in list(self._links.values()):
            self._drop(link)
        self._epoll.close()
        os.close(self._wake)

    @property
    def _look_around_s(self) -> float:
        return self._bounds.handshake_s / 4

    def _serve(self) -> None:
        """One thread: take an event, attend to it, take the next."""
        door = self._door.fileno()
        while True:
            for fd, events in self._epoll.poll(self._look_around_s, 1):
                if fd == door:
                    self._accept()
                    continue
                link = self._links.get(fd)
                # A late event may name a descriptor that is another link's by now: then
                # there is nothing to read, and no harm done.
                if link is not None and link.begin():
                    self._attend(link, events)
            if self._is_closing:
                return
            self._look_around()

    def _attend(self, link: Link, events: int) -> None:
        if link.loss is None and events & select.EPOLLOUT:
            link.flush()
        if link.loss is None and events & ~select.EPOLLOUT:
            self._receive(link)
        if not link.end():
            self._drop(link)

    def _receive(self, link: Link) -> None:
        """Read what is there, up to one frame, and see to it."""
        try:
            frame = link.receive()
            if frame is None:
                return
            if link.peer is None:
                self._greet(link, frame)
            else:
                self._deliver(link, link.peer, frame)
        except PeerLost:
            link.lose("gone")
        except HandshakeRefused as error:
            logger.warning("%s: turned away: %s", self.address, error)
            link.say_farewell(str(error), "refused")
        except FrameRefused as error:
            logger.warning("%s: closing %s: %s", self.address, link.peer, error)
            link.say_farewell(str(error), "malformed")
        except Exception as error:  # a bad request must not stop the service for others
            logger.exception("%s: the service failed on %s", self.address, link.peer)
            link.say_farewell(f"the service failed: {error!r}", "failed")

    def _greet(self, link: Link, frame: Frame) -> None:
        hello = frame.message
        if frame.kind is not Kind.HELLO or not isinstance(hello, Hello):
            raise FrameRefused(f"expected a hello, got a frame of kind {frame.kind!r}")
        welcome = self._hello_check(hello)
        decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
            self._request_type(hello.role)
        )
        with self._lock:
            self._last_connection += 1
            number = self._last_connection
        peer = Peer(hello.role, hello.run, hello.incarnation, number)
        link.greeted(peer, decoder, self._limits)
        link.send(encode_frame(Kind.HELLO, 0, welcome, (), HANDSHAKE_LIMITS))

    def _deliver(self, link: Link, peer: Peer, frame: Frame) -> None:
        if frame.kind is not Kind.REQUEST or frame.message is None:
            raise FrameRefused(f"expected a request, got a frame of kind {frame.kind!r}")
        reply = LinkReply(link, frame.request_id)
        try:
            self._service.received(peer, frame.message, frame.buffers, reply)
        except TransportError as error:  # of the service's own doing, not of this link
            raise RuntimeError("the service let a transport error through") from error

    def _drop(self, link: Link) -> None:
        """Close a lost link; by the thread that attends it, or by `close`."""
        with self._lock:
            del self._links[link.fd]
            self._counts[link.loss or "gone"] += 1
        link.drop()
        if link.peer is not None:
            try:
                self._service.disconnected(link.peer)
            except Exception:
                logger.exception("%s: the service failed on %s", self.address, link.peer)

    def _accept(self) -> None:
        """Let one in and arm the door again."""
        try:
            sock, _ = self._door.accept()
        except BlockingIOError:
            pass
        except OSError:
            # Out of descriptors, most likely: the door stays shut until the next look.
            logger.exception("%s: cannot accept", self.address)
            return
        else:
            self._let_in(sock)
        self._arm_door()

    def _let_in(self, sock: socket.socket) -> None:
        prepare(sock)
        bounds = self._bounds
        outbox = Outbox(sock, bounds.credit_bytes, bounds.patience_s, self._clock)
        link = Link(sock, self._epoll, outbox, Deadline(self._clock, bounds.handshake_s))
        with self._lock:
            is_crowded = len(self._links) >= bounds.num_connections
            self._links[link.fd] = link
            self._counts["accepted"] += 1
        link.begin()
        self._epoll.register(link.fd, select.EPOLLONESHOT)  # for nothing yet
        if is_crowded:
            link.say_farewell(f"{bounds.num_connections} connections are enough", "crowded")
        elif not is_same_user(sock):
            link.say_farewell("only the user who runs the job may connect", "stranger")
        if not link.end():
            self._drop(link)

    def _arm_door(self) -> None:
        if not self._is_closing:
            self._epoll.modify(self._door, select.EPOLLIN | select.EPOLLONESHOT)

    def _look_around(self) -> None:
        """Now and then: part from the mute, and try the door again."""
        with self._lock:
            if not self._look_around_at.is_over():
                return
            self._look_around_at = Deadline(self._clock, self._look_around_s)
            links = list(self._links.values())
        for link in links:
            if link.peer is None and link.greeting.is_over():
                link.say_farewell("no hello in time", "mute")
        self._arm_door()
