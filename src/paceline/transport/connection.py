"""What a client holds: one connection, many requests at a time.

Requests carry a number, replies name it: they may come in any order and much later. A
connection has no thread of its own: who waits for a reply receives, and a lone caller pays
no hand-over.

Waits: for the peer, always with a deadline. Any thread may call.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Self

import msgspec

from paceline.timing import Clock, Deadline
from paceline.transport.frames import Buffer, ByteArray, WritableBuffer
from paceline.transport.handshake import Welcome

SEND_TIMEOUT_S = 10.0

MessageType = type[msgspec.Struct] | UnionType

Landing = Callable[[msgspec.Struct, Sequence[int]], Sequence[WritableBuffer]]
"""Says where a reply's buffers go: (message, bytes of each buffer) -> writable memory of
exactly these sizes. Called only for replies with buffers, by whichever thread receives,
with the connection locked: it must be quick and must not use the connection. What it
raises is raised to the one who waits for the reply."""


AtOnce = Callable[[msgspec.Struct], msgspec.Struct | None]
"""Takes a reply without buffers where it is given, and says what is asked next in its
place; None leaves the reply to the one who waits. Called with the connection locked, by
whichever thread replies, and only where the peer is in this process: nobody is woken."""


class Answer(msgspec.Struct, frozen=True):
    """A reply: its message, and its buffers as flat bytes."""

    message: msgspec.Struct
    buffers: list[ByteArray]


class Connection(ABC):
    """A link to another role, as its client sees it."""

    def __init__(self, address: str, welcome: Welcome, clock: Clock) -> None:
        self.address = address
        self.welcome = welcome
        self._clock = clock

    @abstractmethod
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
        """Send a request and return its number; the buffers are the caller's again.

        Every number must be given to `wait_reply` once.

        Args:
            message: the request.
            buffers: C-contiguous memory of any dtype, sent as bytes without a copy.
            landing: where the buffers of the reply go; without one, fresh memory.
            reply_sizes: bytes of each of them, if they are known: no promise, but room.
            pen: where the peer may read the buffers after its reply, until another
                request of the same pen is submitted.
            at_once: takes replies before anybody is woken, where that can be.
            timeout_s: how long sending may take.

        Raises:
            FrameRefused: it cannot travel; nothing was sent and the connection goes on.
            DeadlineExceeded: the peer did not take it; a half-sent request closes the
                connection.
            PeerLost: the peer is gone; whether it got the request is unknown.
        """

    @abstractmethod
    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        """Wait for the reply to a submitted request.

        Raises:
            DeadlineExceeded: no reply in time. The request is forgotten, a late reply
                dropped, and the memory of its landing is not written any more.
            PeerLost: the peer is gone; everyone who waits gets it.
            FrameRefused: the peer sent what is no reply; the connection is closed.
        """

    @abstractmethod
    def close(self) -> None:
        """Hang up; whoever waits gets `PeerLost`. May be repeated."""

    def call(
        self,
        message: msgspec.Struct,
        buffers: Sequence[Buffer] = (),
        *,
        timeout_s: float,
        landing: Landing | None = None,
        at_once: AtOnce | None = None,
    ) -> Answer:
        """`submit` and `wait_reply` within one time-out; raises what they raise."""
        deadline = Deadline(self._clock, timeout_s)
        request_id = self.submit(
            message, buffers, landing=landing, at_once=at_once, timeout_s=timeout_s
        )
        return self.wait_reply(request_id, deadline.remaining_s())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
