"""The same corridor without sockets: for embedded jobs and tests.

::

    submit -> encode -> decode -> service.received, in the caller's thread
    reply  -> encode -> decode -> landing, in the replier's thread -> wakes the waiter

Messages are encoded and decoded, within the same limits, as on a socket, so what cannot
travel there fails here; buffers are copied once, as the receiver owns them.

Waits: for replies, with a deadline; in `submit`, and where a reply is taken at once, while
another thread's request on the same connection is with the service. Any thread may call.
"""

import collections
import logging
import threading
from collections.abc import Sequence
from typing import final

import msgspec

from paceline.errors import (
    DeadlineExceeded,
    FrameRefused,
    HandshakeRefused,
    PeerLost,
    UsageError,
)
from paceline.timing import Clock, Deadline
from paceline.transport.connection import (
    SEND_TIMEOUT_S,
    Answer,
    AtOnce,
    Connection,
    Landing,
    MessageType,
)
from paceline.transport.frames import (
    DATA_LIMITS,
    HANDSHAKE_LIMITS,
    Buffer,
    Limits,
    Parcel,
    packed,
)
from paceline.transport.greeting import check_welcome
from paceline.transport.handshake import Hello, HelloCheck, Welcome
from paceline.transport.listener import Listener, RequestType
from paceline.transport.requests import OpenRequests, decode_message
from paceline.transport.service import Peer, Service

logger = logging.getLogger("paceline.transport")

_LEAVE_TIMEOUT_S = 5.0
_NOT_RECEIVED = "a frame is not received"

_HELLO_DECODER: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(Hello)

_registry_lock = threading.Lock()
_registry: dict[str, "InProcessListener"] = {}  # by address; by _registry_lock


@final
class _InProcessReply(msgspec.Struct, eq=False):
    """The way back of one request."""

    connection: "InProcessConnection"
    request_id: int
    at_once: AtOnce | None
    is_given: bool = False

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        """See `Reply`."""
        assert not self.is_given, f"request {self.request_id} is answered twice"
        parcel = packed(message, buffers, self.connection.desk.limits)
        if self.at_once is None or not self._is_taken(parcel, self.at_once):
            self.connection.file(self.request_id, parcel)
        self.is_given = True

    def _is_taken(self, parcel: Parcel, at_once: AtOnce) -> bool:
        """Whether the asker takes the reply here, and asks on in its place.

        As long as it does, its waiting thread brings no newer question.
        """
        connection = self.connection
        desk, requests = connection.desk, connection.requests
        if not desk.lock.acquire(timeout=SEND_TIMEOUT_S):
            return False
        try:
            with requests.lock:
                message, _ = requests.place(self.request_id, parcel)
            following = None if message is None else at_once(message)
            if following is None:
                return False
            desk.deliver(
                _InProcessReply(connection, self.request_id, at_once),
                packed(following, (), connection.limits),
                SEND_TIMEOUT_S,
            )
            return True
        finally:
            desk.lock.release()


@final
class _Desk:
    """The listener's end of a connection: one request at a time to the service."""

    def __init__(
        self,
        listener: "InProcessListener",
        peer: Peer,
        decoder: msgspec.msgpack.Decoder[msgspec.Struct],
    ) -> None:
        self.limits = listener.limits
        self._listener = listener
        self._peer = peer
        self._decoder = decoder
        # Guards `_is_open`, and lets one request at a time through to the service; its
        # holder may bring another behind its own.
        self.lock = threading.RLock()
        self._is_open = True

    def deliver(self, reply: _InProcessReply, parcel: Parcel, timeout_s: float) -> None:
        """Hand a request over; what it breaks closes the connection, as over a socket."""
        connection = reply.connection
        if not self.lock.acquire(timeout=timeout_s):
            raise DeadlineExceeded(f"{connection.address}: the peer takes no request")
        loss, reason = "", ""
        try:
            if not self._is_open:
                return
            if self.limits is not connection.limits:
                parcel.require_within(self.limits, _NOT_RECEIVED)
            message = decode_message(self._decoder, parcel)
            buffers = parcel.copied() if parcel.views else []
            self._listener.service.received(self._peer, message, buffers, reply)
        except FrameRefused as error:
            loss, reason = "malformed", str(error)
            logger.warning("%s: closing %s: %s", connection.address, self._peer, error)
        except Exception as error:  # a bad request must not stop the service for others
            loss, reason = "failed", f"the service failed: {error!r}"
            logger.exception("%s: the service failed on %s", connection.address, self._peer)
        finally:
            self.lock.release()
        if reason:
            connection.lose(
                PeerLost(f"{connection.address}: the other end closed: {reason}")
            )
            self.leave(connection, loss)

    def leave(self, connection: "InProcessConnection", loss: str) -> None:
        """Part from the service, once, after its last request."""
        if not self.lock.acquire(timeout=_LEAVE_TIMEOUT_S):
            raise DeadlineExceeded(
                f"{connection.address}: the service is still busy with a request after "
                f"{_LEAVE_TIMEOUT_S:.3g} s"
            )
        was_open, self._is_open = self._is_open, False
        self.lock.release()
        if not was_open:
            return
        self._listener.part(connection, loss)
        try:
            self._listener.service.disconnected(self._peer)
        except Exception:
            logger.exception("%s: the service failed to part", connection.address)


@final
class InProcessListener(Listener):
    """Listens at a name of this process; has no thread of its own."""

    def __init__(
        self,
        address: str,
        service: Service,
        *,
        hello_check: HelloCheck,
        request_type: RequestType,
        limits: Limits = DATA_LIMITS,
    ) -> None:
        """Take the name.

        Raises:
            UsageError: somebody in this process listens there.
        """
        super().__init__(address)
        self.service = service
        self.limits = limits
        self._hello_check = hello_check
        self._request_type = request_type
        # Guards the four fields below.
        self._lock = threading.Lock()
        self._connections: set[InProcessConnection] = set()
        self._counts: collections.Counter[str] = collections.Counter()
        self._last_connection = 0
        self._is_closing = False
        with _registry_lock:
            if address in _registry:
                raise UsageError(f"{address}: somebody listens there already")
            _registry[address] = self

    def counters(self) -> dict[str, int]:
        """See `Listener.counters`."""
        with self._lock:
            return dict(self._counts)

    def close(self, timeout_s: float = 5.0) -> None:
        """See `Listener.close`; the service's calls are made in the closing thread."""
        del timeout_s
        with _registry_lock:
            if _registry.get(self.address) is self:
                del _registry[self.address]
        with self._lock:
            self._is_closing = True
            connections = list(self._connections)
        for connection in connections:
            connection.lose(PeerLost(f"{self.address}: the other end closed"))
            connection.close()

    def greet(self, parcel: Parcel) -> tuple[Welcome, _Desk]:
        """Check a hello, as it came.

        Raises:
            HandshakeRefused: with the reason.
        """
        hello = decode_message(_HELLO_DECODER, parcel)
        assert isinstance(hello, Hello)
        with self._lock:
            self._counts["accepted"] += 1
            self._last_connection += 1
            number = self._last_connection
        try:
            welcome = self._hello_check(hello)
        except HandshakeRefused as error:
            logger.warning("%s: turned away: %s", self.address, error)
            with self._lock:
                self._counts["refused"] += 1
            raise type(error)(f"{self.address}: {error}") from error
        decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
            self._request_type(hello.role)
        )
        return welcome, _Desk(
            self, Peer(hello.role, hello.run, hello.incarnation, number), decoder
        )

    def admit(self, connection: "InProcessConnection") -> None:
        """Keep a connection until it parts.

        Raises:
            PeerLost: the listener has closed.
        """
        with self._lock:
            if self._is_closing:
                raise PeerLost(f"{self.address}: the other end closed")
            self._connections.add(connection)

    def part(self, connection: "InProcessConnection", loss: str) -> None:
        """Forget a connection."""
        with self._lock:
            self._connections.discard(connection)
            self._counts[loss] += 1


def connect_inprocess(
    address: str,
    hello: Hello,
    reply_type: MessageType,
    limits: Limits,
    clock: Clock,
    timeout_s: float,
) -> "InProcessConnection":
    """Connect to an `InProcessListener`; arguments and errors as of `connect`."""
    del timeout_s  # nothing to wait for
    with _registry_lock:
        listener = _registry.get(address)
    if listener is None:
        raise PeerLost(f"{address}: nobody listens there in this process")
    welcome, desk = listener.greet(packed(hello, (), HANDSHAKE_LIMITS))
    check_welcome(hello, welcome)
    connection = InProcessConnection(address, welcome, desk, reply_type, limits, clock)
    listener.admit(connection)
    return connection


@final
class InProcessConnection(Connection):
    """A connection inside this process; made by `connect_inprocess`."""

    def __init__(
        self,
        address: str,
        welcome: Welcome,
        desk: _Desk,
        reply_type: MessageType,
        limits: Limits,
        clock: Clock,
    ) -> None:
        super().__init__(address, welcome, clock)
        self.desk, self.limits = desk, limits
        self.requests = OpenRequests(reply_type)

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
        del reply_sizes  # the reply's buffers are copied straight to their landing
        del pen  # the request's are copied, too
        with self.requests.lock:
            request_id = self.requests.open(message, landing)
        try:
            parcel = packed(message, buffers, self.limits)
            reply = _InProcessReply(self, request_id, at_once)
            self.desk.deliver(reply, parcel, timeout_s)
        except BaseException:
            with self.requests.lock:
                self.requests.forget(request_id)
            raise
        return request_id

    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        """See `Connection.wait_reply`."""
        deadline: Deadline | None = None  # mostly it has come already
        with self.requests.lock:
            while True:
                answer = self.requests.take(request_id)
                if answer is not None:
                    return answer
                deadline = deadline or Deadline(self._clock, timeout_s)
                if deadline.is_over():
                    name = self.requests.forget(request_id)
                    raise DeadlineExceeded(
                        f"{self.address}: no reply to {name} within {timeout_s:.3g} s"
                    )
                self.requests.wait(deadline.remaining_s())

    def close(self) -> None:
        """See `Connection.close`."""
        self.lose(PeerLost(f"{self.address}: the connection was closed on this side"))
        self.desk.leave(self, "gone")

    def lose(self, loss: PeerLost | FrameRefused) -> None:
        """Wake everyone who waits; the first reason stays."""
        with self.requests.lock:
            self.requests.lose(loss)

    def file(self, request_id: int, parcel: Parcel) -> None:
        """Bring a reply home; whatever the memory of its landing, it is written here."""
        with self.requests.lock:
            try:
                if self.limits is not self.desk.limits:
                    parcel.require_within(self.limits, _NOT_RECEIVED)
                message, places = self.requests.place(request_id, parcel)
            except FrameRefused as error:
                self.requests.lose(FrameRefused(f"{self.address}: {error}"))
                return
            if places:
                parcel.unload(places)
            self.requests.file(request_id, message, places)
