"""The replies that one connection still waits for.

An entry is opened before its request is sent, filled when the reply has come, and taken by
the one who waits. A request given up is forgotten, and its late reply finds no entry.

Waits for nothing but in `OpenRequests.wait`; the caller holds `OpenRequests.lock` around
every call.
"""

import threading
from typing import TypeVar, final

import msgspec

from paceline.errors import (
    FrameRefused,
    PacelineError,
    PeerLost,
    TransportError,
    UsageError,
)
from paceline.transport.connection import Answer, Landing, MessageType
from paceline.transport.frames import ByteArray, Header, Parcel, allocate, byte_array

T = TypeVar("T")


class _Entry(msgspec.Struct):
    """One request under way."""

    name: str
    landing: Landing | None
    answer: Answer | None = None
    error: Exception | None = None


@final
class OpenRequests:
    """Numbers, landings and replies of one connection."""

    def __init__(self, reply_type: MessageType) -> None:
        # Guards this object and, in a socket's connection, its receiving side.
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._num_waiting = 0  # threads
        self._decoder = msgspec.msgpack.Decoder(reply_type)
        self._entries: dict[int, _Entry] = {}  # {request id: entry}
        self._last_number = 0
        self._loss: TransportError | None = None

    def open(self, message: msgspec.Struct, landing: Landing | None) -> int:
        """Make an entry.

        Raises:
            TransportError: the connection has been lost, and why.
        """
        if self._loss is not None:
            self.raise_if_lost()
        self._last_number += 1
        self._entries[self._last_number] = _Entry(type(message).__name__, landing)
        return self._last_number

    def forget(self, request_id: int) -> str:
        """Give a request up; returns the name of its message."""
        return self._entries.pop(request_id).name

    def place(
        self, request_id: int, header: Header | Parcel
    ) -> tuple[msgspec.Struct | None, list[ByteArray]]:
        """Decode a reply that is coming in and say where its buffers go.

        Without a message nobody wants it: it was given up, or all is lost.

        Raises:
            FrameRefused: the message is none of the expected ones.
        """
        entry = self._entries.get(request_id)
        if entry is None or self._loss is not None:
            return None, allocate(header.sizes)
        message = decode_message(self._decoder, header)
        if not header.sizes:
            return message, []
        if entry.landing is None:
            return message, allocate(header.sizes)
        try:
            return message, _land(entry.landing, message, header.sizes)
        except Exception as error:  # noqa: BLE001  (belongs to the one who waits)
            entry.error = error
            return message, allocate(header.sizes)

    def file(
        self, request_id: int, message: msgspec.Struct | None, buffers: list[ByteArray]
    ) -> None:
        """A reply has come in whole; without an entry it is dropped."""
        entry = self._entries.get(request_id)
        if entry is not None and message is not None:
            entry.answer = Answer(message, buffers)
            if self._num_waiting:
                self._changed.notify_all()

    def take(self, request_id: int) -> Answer | None:
        """The reply if it has come, else None.

        Raises:
            TransportError: the connection was lost before the reply came, and why.
            Exception: whatever the request's landing raised.
        """
        entry = self._entries.get(request_id)
        if entry is None:
            raise UsageError(
                f"request {request_id} is not open: its reply was taken, or it was given up"
            )
        if entry.answer is None:
            if self._loss is not None:
                del self._entries[request_id]
                self.raise_if_lost()
            return None
        del self._entries[request_id]
        if entry.error is not None:
            raise entry.error
        return entry.answer

    def lose(self, loss: TransportError) -> None:
        """No reply will come any more; the first reason stays."""
        if self._loss is None:
            self._loss = loss
        self.tell()

    def wait(self, timeout_s: float) -> None:
        """Let go of the lock until there may be news, or the time is over."""
        self._num_waiting += 1
        try:
            self._changed.wait(timeout_s)
        finally:
            self._num_waiting -= 1

    def tell(self) -> None:
        """Let all who wait look again."""
        if self._num_waiting:
            self._changed.notify_all()

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._loss is not None

    def raise_if_lost(self) -> None:
        """Raise the reason of the end, if there was one, as this thread's own error."""
        if self._loss is not None:
            kind = type(self._loss) if isinstance(self._loss, FrameRefused) else PeerLost
            raise kind(str(self._loss)) from self._loss


def decode_message(decoder: "msgspec.msgpack.Decoder[T]", header: Header | Parcel) -> T:
    """The message of a frame, or of what would be one.

    Raises:
        FrameRefused: it is none that the decoder knows, or a value in it is out of range.
    """
    try:
        return decoder.decode(header.message)
    # Specs (`paceline.config`) check themselves when they are made, also from the wire.
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
        PacelineError,
    ) as error:
        raise FrameRefused(f"a message cannot be decoded: {error}") from error


def _land(
    landing: Landing, message: msgspec.Struct, sizes: tuple[int, ...]
) -> list[ByteArray]:
    places = [byte_array(place) for place in landing(message, sizes)]
    offered = tuple([place.nbytes for place in places])
    if offered != sizes:
        raise UsageError(
            f"the reply {type(message).__name__} has buffers of {sizes} bytes, its "
            f"landing offers {offered}"
        )
    if False in [place.flags.writeable for place in places]:
        raise UsageError("a landing offers memory that cannot be written")
    return places
