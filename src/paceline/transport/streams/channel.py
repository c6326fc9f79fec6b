"""Two processes of ours that were made as a pair: frames over a socket, both ways.

Neither comes to the other's door: nobody shakes hands, and no request has a number.

Waits: `send` and `receive`, as long as the socket's own time-out lets them. One thread
sends at a time, and one receives.
"""

import socket
from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar, cast, final

import msgspec

from paceline.errors import PeerLost
from paceline.transport.frames import (
    Buffer,
    ByteArray,
    Header,
    Kind,
    Limits,
    Preamble,
    allocate,
    encode_frame,
)
from paceline.transport.requests import decode_message
from paceline.transport.streams.pieces import FrameReader, Placed, send_some

T = TypeVar("T")


class Received(NamedTuple, Generic[T]):
    """A message and its buffers, each its own memory."""

    message: T
    buffers: list[ByteArray]


@final
class FrameChannel(Generic[T]):
    """One end of the way between two processes; ``T`` is what comes in."""

    def __init__(
        self,
        end: socket.socket,
        incoming: "msgspec.msgpack.Decoder[T]",
        limits: Limits,
        other: str,
    ) -> None:
        """Speak through a connected stream socket that may block; it is closed here.

        ``other`` names who is at the other end, for errors.
        """
        self._end, self._limits, self._other = end, limits, other
        self._incoming = cast("msgspec.msgpack.Decoder[msgspec.Struct]", incoming)
        self._reader = FrameReader(limits, self._place)

    def send(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message with buffers, any contiguous memory.

        Raises:
            FrameRefused: it is over a limit, or cannot travel; nothing was sent.
            PeerLost: the other end has hung up, or does not read.
        """
        pieces = encode_frame(Kind.REQUEST, 0, message, buffers, self._limits)
        try:
            send_some(self._end, deque(pieces))
        except PeerLost as error:
            raise self._lost(error) from error

    def receive(self) -> Received[T]:
        """Wait for the next message.

        Raises:
            PeerLost: the other end has hung up, or says nothing.
            FrameRefused: it says something else than a message, or is over a limit.
        """
        try:
            frame = self._reader.receive(self._end)
        except PeerLost as error:
            raise self._lost(error) from error
        assert frame is not None, "the socket does not block"
        return Received(cast("T", frame.message), frame.buffers)

    def fileno(self) -> int:
        """The socket's, to be waited for."""
        return self._end.fileno()

    def close(self) -> None:
        """Hang up."""
        self._end.close()
        self._reader.close()

    def _lost(self, error: PeerLost) -> PeerLost:
        return PeerLost(f"{self._other} has hung up: {error}")

    def _place(self, preamble: Preamble, header: Header) -> Placed:
        del preamble
        return decode_message(self._incoming, header), allocate(header.sizes)
