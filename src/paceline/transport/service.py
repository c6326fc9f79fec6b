"""What a listener calls, and what it hands over.

A service decides what a request means; the listener carries. The same service runs behind
sockets and in process.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, cast, runtime_checkable

import msgspec

from paceline.transport.frames import Buffer, ByteArray, allocate


class Peer(NamedTuple):
    """The other end of a connection, as it introduced itself.

    ``connection`` is a number that no other connection of its kind has in this process.
    """

    role: str
    run: str
    incarnation: int
    connection: int


class Reply(Protocol):
    """The way back of one request; may be kept and called later, from any thread."""

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        """Answer, once.

        Afterwards the buffers are the caller's again: what the kernel did not take within
        a few milliseconds has been copied. Nothing happens if the connection has gone.

        Raises:
            FrameRefused: the answer cannot travel; another one may be given.
        """


class RoomyReply(Protocol):
    """A reply whose sender may have kept room for its buffers."""

    def places(self, sizes: Sequence[int]) -> list[ByteArray]:
        """That room if buffers of these sizes fit, else fresh memory."""


class LosableReply(Protocol):
    """A reply whose asker may be seen to have gone."""

    def is_awaited(self) -> bool:
        """Whether somebody may still take the answer."""


class Service(Protocol):
    """The owner of a listener.

    Calls for one connection come one after the other, in the order of its requests;
    calls for different connections come at the same time from different threads.
    """

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """Take a request; must not block, since few threads serve all connections.

        The buffers belong to the service until it has replied: then they may be the
        sender's again. What is kept longer must be copied (`own`). An exception closes the
        connection.
        """

    def disconnected(self, peer: Peer) -> None:
        """The connection has gone; the last call for it, made once."""


@runtime_checkable
class Gathers(Protocol):
    """A service to which requests that are there at once cost less together."""

    def together(self) -> AbstractContextManager[object]:
        """Requests that this thread brings within may wait for the end of it."""


def places_of(reply: Reply, sizes: Sequence[int]) -> list[ByteArray]:
    """Memory for the buffers of an answer, from which they need not be copied again."""
    # Not `isinstance`: of a protocol it takes longer than all the rest of an answer.
    if hasattr(reply, "places"):
        return cast("RoomyReply", reply).places(sizes)
    return allocate(sizes)


def is_awaited(reply: Reply) -> bool:
    """Whether an answer is worth its work; answering somebody who has gone does no harm."""
    return not hasattr(reply, "is_awaited") or cast("LosableReply", reply).is_awaited()


def own(buffer: ByteArray) -> ByteArray:
    """The buffer if its memory is its own, else a copy: for what outlives the reply."""
    return buffer if buffer.flags.owndata else buffer.copy()
