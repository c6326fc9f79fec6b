"""Many connections on few threads.

::

    epoll  (each socket armed for one event)
      |  one thread gets the event, nobody else
      v
    read what is there -> a frame is whole? -> call the service, inline -> arm again

The threads take turns at one epoll (leader and followers: Schmidt et al., POSA 2), so a
thousand connections need no more threads than one, and a small request is answered by the
thread that read it. Half a frame keeps no thread: its state stays with the link. Requests
of one connection are served one after the other, in order. A thread may take several
sockets at once, for a service that gathers requests (`Gathers`).

Who has not yet shaken hands is a stranger: it has small frames, little time, and a place
only until `Bounds.num_strangers` younger ones stand at the door.

Waits: for events. `StreamListener.close` waits for its threads, so the service must not
call it.
"""

import collections
import contextlib
import itertools
import logging
import os
import secrets
import select
import socket
import threading
from collections.abc import Iterator
from typing import final

import msgspec

from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    FrameRefused,
    HandshakeRefused,
    PeerLost,
    TransportError,
)
from paceline.timing import Clock, Deadline
from paceline.transport.frames import (
    DATA_LIMITS,
    HANDSHAKE_LIMITS,
    Kind,
    Limits,
    encode_frame,
)
from paceline.transport.greeting import Reception
from paceline.transport.handshake import NONCE_BYTES, HelloCheck, Welcome
from paceline.transport.listener import DEFAULT_BOUNDS, Bounds, Listener, RequestType
from paceline.transport.service import Gathers, Peer, Service
from paceline.transport.streams.complaints import Complaints
from paceline.transport.streams.link import Link
from paceline.transport.streams.pieces import Frame, Outbox
from paceline.transport.streams.sockets import Door, prepare

logger = logging.getLogger("paceline.transport")

_numbers = itertools.count(1)  # of connections: a service may have two listeners


@final
class StreamListener(Listener):
    """Listens at a door, whatever kind of stream socket it is of."""

    def __init__(
        self,
        door: Door,
        service: Service,
        *,
        hello_check: HelloCheck,
        request_type: RequestType,
        clock: Clock,
        limits: Limits = DATA_LIMITS,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Start the threads; the door is closed with the listener."""
        super().__init__(door.address)
        self._service = service
        self._hello_check = hello_check
        self._request_type = request_type
        self._clock = clock
        self._limits = limits
        self._bounds = bounds
        self._door = door
        self._complaints = Complaints(door.address, clock)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(door.socket, select.EPOLLIN | select.EPOLLONESHOT)
        # Guards changes of the six fields below; single reads need no lock.
        self._lock = threading.Lock()
        self._links: dict[int, Link] = {}  # {descriptor: link}
        self._strangers: dict[int, Link] = {}  # {descriptor: link}, the oldest first
        self._num_peers = 0  # links whose peer is known
        self._counts: collections.Counter[str] = collections.Counter()
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
        self._door.vacate()
        deadline = Deadline(self._clock, timeout_s)
        for thread in self._threads:
            thread.join(deadline.remaining_s())
        self._door.socket.close()
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
        door = self._door.socket.fileno()
        while True:
            found = self._epoll.poll(self._look_around_s, self._bounds.num_together)
            with self._together(len(found)):
                for fd, events in found:
                    if fd == door:
                        self._accept()
                        continue
                    link = self._links.get(fd)
                    # A late event may name a descriptor that is another link's by now:
                    # then there is nothing to read, and no harm done.
                    if link is not None and link.begin():
                        self._attend(link, events)
            if self._is_closing:
                return
            self._look_around()

    @contextlib.contextmanager
    def _together(self, num_events: int) -> Iterator[None]:
        """Attend several links, for a service that gathers what they bring."""
        if num_events < 2 or not isinstance(self._service, Gathers):
            yield
            return
        try:
            with self._service.together():
                yield
        except Exception:  # a bad request must not stop the service for others
            logger.exception("%s: the service failed on requests together", self.address)

    def _attend(self, link: Link, events: int) -> None:
        if link.loss is None and link.may_flush(events):
            link.flush()
        if link.loss is None and link.may_receive(events):
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
            is_foreign = isinstance(error, ForeignPeer)
            self._turn_away(link, str(error), "refused", is_foreign=is_foreign)
        except FrameRefused as error:
            self._turn_away(link, str(error), "malformed")
        except Exception as error:  # a bad request must not stop the service for others
            logger.exception("%s: the service failed on %s", self.address, link.peer)
            link.say_farewell(f"the service failed: {error!r}", "failed")

    def _greet(self, link: Link, frame: Frame) -> None:
        """See to one frame of a handshake."""
        if frame.kind is not Kind.HELLO:
            raise FrameRefused(f"expected a hello, got a frame of kind {frame.kind!r}")
        answer = link.reception.answer(frame.message)
        if isinstance(answer, Welcome) and not self._welcome(link):
            reason = f"{self._bounds.num_connections} connections are enough"
            self._turn_away(link, reason, "crowded")
            return
        link.send(encode_frame(Kind.HELLO, 0, answer, (), HANDSHAKE_LIMITS))

    def _welcome(self, link: Link) -> bool:
        """Make a stranger a peer; false if there are enough."""
        hello = link.reception.hello
        assert hello is not None
        decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
            self._request_type(hello.role)
        )
        with self._lock:
            if self._num_peers >= self._bounds.num_connections:
                return False
            self._num_peers += 1
            self._strangers.pop(link.fd, None)
        number = next(_numbers)
        peer = Peer(hello.role, hello.run, hello.incarnation, number)
        is_checked = self._door.way == "plain"
        link.greeted(peer, decoder, self._limits._replace(is_checked=is_checked))
        return True

    def _turn_away(
        self, link: Link, reason: str, loss: str, *, is_foreign: bool = False
    ) -> None:
        """Close a link and say why: in the log, and to the other end if it listens."""
        who = f"{link.origin}, {link.peer}" if link.peer else link.origin
        self._complaints.say("turning away", who, reason)
        link.say_farewell(reason, loss, is_foreign=is_foreign)

    def _deliver(self, link: Link, peer: Peer, frame: Frame) -> None:
        if frame.kind is Kind.MAILBOX:
            link.take_mailbox(frame)
            return
        if frame.kind is not Kind.REQUEST or frame.message is None:
            raise FrameRefused(f"expected a request, got a frame of kind {frame.kind!r}")
        reply = link.reply(frame)
        try:
            self._service.received(peer, frame.message, frame.buffers, reply)
        except TransportError as error:  # of the service's own doing, not of this link
            raise RuntimeError("the service let a transport error through") from error

    def _drop(self, link: Link) -> None:
        """Close a lost link; by the thread that attends it, or by `close`."""
        with self._lock:
            del self._links[link.fd]
            if link.peer is not None:
                self._num_peers -= 1
            elif self._strangers.get(link.fd) is link:
                del self._strangers[link.fd]
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
            sock, _ = self._door.socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            pass
        except OSError as error:
            if self._is_closing:
                return
            # Out of descriptors, most likely. Without a stranger to push out, the door
            # stays shut until the next look.
            self._complaints.say("cannot accept", "anybody", str(error))
            if not self._displace():
                return
        else:
            self._let_in(sock)
        self._arm_door()

    def _let_in(self, sock: socket.socket) -> None:
        bounds, door = self._bounds, self._door
        try:
            prepare(sock)
            place, origin = door.place(sock), door.origin(sock)
            objection = door.objection(sock)
            stream = door.sealed(sock)
        except OSError:  # it came and went
            sock.close()
            return
        nonce = secrets.token_bytes(NONCE_BYTES)
        reception = Reception(self._hello_check, door.secrets, place, nonce, door.way)
        greeting = Deadline(self._clock, bounds.handshake_s)
        outbox = Outbox(stream, bounds.credit_bytes, bounds.patience_s, self._clock)
        link = Link(stream, origin, reception, greeting, self._epoll, outbox)
        if len(self._strangers) >= bounds.num_strangers:
            self._displace()
        with self._lock:
            self._links[link.fd] = link
            self._strangers[link.fd] = link
            self._counts["accepted"] += 1
        link.begin()
        self._epoll.register(link.fd, select.EPOLLONESHOT)  # for nothing yet
        if objection is not None:
            self._turn_away(link, objection, "stranger")
        if not link.end():
            self._drop(link)

    def _displace(self) -> bool:
        """Push out the oldest stranger; whoever attends it closes it. False: none there."""
        with self._lock:
            fd = next(iter(self._strangers), None)
            link = self._strangers.pop(fd) if fd is not None else None
        if link is None:
            return False
        self._complaints.say("turning away", link.origin, "others wait behind it")
        link.lose("displaced")
        return True

    def _arm_door(self) -> None:
        if not self._is_closing:
            self._epoll.modify(self._door.socket, select.EPOLLIN | select.EPOLLONESHOT)

    def _look_around(self) -> None:
        """Now and then: part from the mute, and try the door again."""
        with self._lock:
            if not self._look_around_at.is_over():
                return
            self._look_around_at = Deadline(self._clock, self._look_around_s)
            strangers = list(self._strangers.values())
        for link in strangers:
            if link.peer is None and link.loss is None and link.greeting.is_over():
                self._turn_away(link, "no hello in time", "mute")
        self._arm_door()
