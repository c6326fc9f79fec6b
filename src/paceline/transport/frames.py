"""One frame on the wire, as bytes.

::

    preamble, 32 bytes, little endian                                 header   payload
    magic | version | kind | header length | payload length | id | xxh32
    4s      u16       u16    u32             u64              u64   u32

    header  = msgpack [[bytes of buffer 0, bytes of buffer 1, ...], message, place, room]
    payload = the raw bytes of the buffers, one behind the other

On a link without TLS between hosts frames are checked: behind the header and behind a
payload that is not empty stands the xxh3-64, 8 bytes, of all of the frame before it but the
other checksum. So no header is believed before it is known to be whole. The payload is in
its place by then: whoever named the place must not use it before the frame has come.

With a place the payload is empty: the buffers lie there in the connection's mailbox, each
at a multiple of `ALIGNMENT` bytes behind it. A request with a room wants the buffers of
its reply there.

The checksum covers the 28 bytes before it, so that a stream that has lost its step is
noticed before a length is believed. Every length is compared with `Limits` before any
memory is taken for it.

Pure. Any thread may call.
"""

import enum
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import xxhash

from paceline.errors import FrameDamaged, FrameRefused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"PACE"
PROTOCOL_VERSION = 1
PREAMBLE_BYTES = 32
MAX_BUFFERS = 1 << 16
ALIGNMENT = 64
CHECKSUM_BYTES = 8  # of a checked frame
TLS_BEGINNING = b"\x16\x03"  # of whoever opens TLS
NO_TLS_HERE = (
    "one end speaks TLS and the other does not; give all processes of a job --plain, "
    "or none"
)

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview | NDArray[np.generic]
    WritableBuffer = bytearray | memoryview | NDArray[np.generic]
    ByteArray = NDArray[np.uint8]  # one received buffer: 1-D, contiguous, writable
else:  # who only asks how a job stands needs no numpy
    Buffer = WritableBuffer = ByteArray = object
Put = Callable[[Sequence[memoryview]], "InMailbox"]
"""Copies buffers into a mailbox, if they fit, and says where they lie."""

_FIELDS = struct.Struct("<4sHHIQQ")
_CHECKSUM = struct.Struct("<I")


class Kind(enum.IntEnum):
    """What a frame is."""

    HELLO = 1
    REQUEST = 2
    REPLY = 3
    ERROR = 4  # the last frame before the other end closes: why
    MAILBOX = 5  # with a descriptor: from now on requests may name places in it


_KINDS = {int(kind): kind for kind in Kind}


class Limits(NamedTuple):
    """What one end of a link accepts and sends; a header has sizes and message.

    ``is_checked``: its frames carry checksums, which count for nothing here.
    """

    header_bytes: int = 64 << 10
    frame_bytes: int = 1 << 30
    num_buffers: int = 4096
    is_checked: bool = False


DATA_LIMITS = Limits()
CONTROL_LIMITS = Limits(header_bytes=16 << 20, frame_bytes=16 << 20, num_buffers=0)
# Before it is known who comes: what a thousand strangers may cost is this a thousand times.
HANDSHAKE_LIMITS = Limits(header_bytes=16 << 10, frame_bytes=16 << 10, num_buffers=0)


class Preamble(NamedTuple):
    """The fixed-size start of a frame."""

    kind: Kind
    request_id: int
    header_bytes: int
    payload_bytes: int


class Room(NamedTuple):
    """Bytes of a mailbox, for the buffers of a reply."""

    start: Annotated[int, msgspec.Meta(ge=0)]
    num_bytes: Annotated[int, msgspec.Meta(ge=0)]


class InMailbox(NamedTuple):
    """What of a request is in the mailbox: its buffers, the room for its reply."""

    place: int | None = None
    room: Room | None = None


class Header(msgspec.Struct, array_like=True, frozen=True):
    """Sizes of the buffers in bytes, the message, not yet decoded, and where they lie."""

    sizes: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0)], ...],
        msgspec.Meta(max_length=MAX_BUFFERS),  # looked at before the tuple is made
    ]
    message: msgspec.Raw
    place: Annotated[int, msgspec.Meta(ge=0)] | None = None  # in the mailbox
    room: Room | None = None


_MOST_PER_SIZE = 9  # bytes of a number in a header
_MOST_AROUND = 16  # and of what is around sizes and message
_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(Header)


def byte_view(buffer: Buffer) -> memoryview:
    """The flat bytes of a C-contiguous buffer, without a copy.

    Raises:
        FrameRefused: the buffer is not contiguous.
    """
    view = memoryview(buffer)  # type: ignore[arg-type]  # an array has the protocol, too
    if view.nbytes == 0:
        return memoryview(bytearray())
    if not view.c_contiguous:
        raise FrameRefused(
            f"a buffer of shape {view.shape} has strides {view.strides}: only C-contiguous "
            "memory travels; make it contiguous first"
        )
    return view if view.ndim == 1 and view.format == "B" else view.cast("B")


def byte_array(buffer: WritableBuffer) -> ByteArray:
    """The same memory as a flat array of bytes, without a copy."""
    import numpy as np  # noqa: PLC0415  (see `Buffer`)

    view = byte_view(buffer)
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def allocate(sizes: Sequence[int]) -> list[ByteArray]:
    """Fresh memory for buffers of these sizes, with whatever lies in it."""
    if not sizes:
        return []
    import numpy as np  # noqa: PLC0415  (see `Buffer`)

    return [np.empty(size, np.uint8) for size in sizes]


def encode_frame(
    kind: Kind,
    request_id: int,
    message: msgspec.Struct,
    buffers: Sequence[Buffer] = (),
    limits: Limits = DATA_LIMITS,
    put: Put | None = None,
) -> list[memoryview]:
    """The pieces of a frame: preamble with header, then the buffers that are not empty.

    Checksums go along where ``limits`` say so.

    The buffers are not copied: the pieces are views of the caller's memory; or none, if
    ``put`` finds them a place in a mailbox.

    Raises:
        FrameRefused: the message cannot travel, or the frame is over a limit. Nothing has
            been sent; the connection goes on.
    """
    views = [byte_view(buffer) for buffer in buffers]
    sizes = tuple([view.nbytes for view in views])
    _check_count(len(sizes), limits)
    encoded = msgspec.Raw(_encoded(message))
    is_within = put is not None and sum(sizes) <= limits.frame_bytes
    place, room = put(views) if put is not None and is_within else InMailbox()
    header = _encoder.encode(Header(sizes, encoded, place, room))
    inline = views if place is None else []
    num_bytes = sum(view.nbytes for view in inline)
    preamble = Preamble(kind, request_id, len(header), num_bytes)
    _check_limits(preamble, limits, f"{type(message).__name__} is not sent")
    start = encode_preamble(preamble) + header
    payload = [view for view in inline if view.nbytes]
    if limits.is_checked:
        return _with_checksums(start, payload)
    return [memoryview(start), *payload]


def _with_checksums(start: bytes, payload: list[memoryview]) -> list[memoryview]:
    so_far = xxhash.xxh3_64(start)
    pieces = [memoryview(start + so_far.digest()), *payload]
    for view in payload:
        so_far.update(view)
    return [*pieces, memoryview(so_far.digest())] if payload else pieces


def _encoded(message: msgspec.Struct) -> bytes:
    try:
        return _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FrameRefused(f"{type(message).__name__} cannot travel: {error}") from error


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """What a frame would carry, without one; the buffers are still the sender's."""

    message: bytes
    sizes: tuple[int, ...]
    views: Sequence[memoryview]

    def require_within(self, limits: Limits, what: str) -> None:
        """Refuse what would be over a limit as a frame; ``what`` says that it does not go.

        Raises:
            FrameRefused: it would be.
        """
        count, num_bytes = len(self.sizes), sum(self.sizes)
        # Mostly no limit is near, and how long the header will be need not be known.
        most_bytes = len(self.message) + _MOST_PER_SIZE * count + _MOST_AROUND
        if (
            count > limits.num_buffers
            or most_bytes > limits.header_bytes
            or most_bytes + num_bytes > limits.frame_bytes
        ):
            _check_count(count, limits)
            header = _encoder.encode(Header(self.sizes, msgspec.Raw(self.message)))
            preamble = Preamble(Kind.REQUEST, 0, len(header), num_bytes)
            _check_limits(preamble, limits, what)

    def copied(self) -> list[ByteArray]:
        """The buffers, in memory of their own."""
        import numpy as np  # noqa: PLC0415  (see `Buffer`)

        return [np.array(view) for view in self.views]

    def unload(self, places: Sequence[ByteArray]) -> None:
        """Copy the buffers, each to its place of as many bytes."""
        for place, view in zip(places, self.views, strict=True):
            if view.nbytes:
                place.data[:] = view


def packed(message: msgspec.Struct, buffers: Sequence[Buffer], limits: Limits) -> Parcel:
    """Make ready what a frame would carry.

    Raises:
        FrameRefused: the message cannot travel, or the frame would be over a limit.
    """
    encoded = _encoded(message)
    if not buffers:
        most_bytes = len(encoded) + _MOST_AROUND
        if most_bytes <= limits.header_bytes <= limits.frame_bytes:
            return Parcel(encoded, (), ())
    views = [byte_view(buffer) for buffer in buffers]
    parcel = Parcel(encoded, tuple([view.nbytes for view in views]), views)
    parcel.require_within(limits, f"{type(message).__name__} is not sent")
    return parcel


def encode_preamble(preamble: Preamble) -> bytes:
    """The first `PREAMBLE_BYTES` of a frame."""
    fields = _FIELDS.pack(
        MAGIC,
        PROTOCOL_VERSION,
        preamble.kind,
        preamble.header_bytes,
        preamble.payload_bytes,
        preamble.request_id,
    )
    return fields + _CHECKSUM.pack(xxhash.xxh32_intdigest(fields))


def parse_preamble(data: bytes | bytearray | memoryview, limits: Limits) -> Preamble:
    """Read the first `PREAMBLE_BYTES` of a frame.

    Raises:
        FrameDamaged: its checksum does not hold.
        FrameRefused: not a frame of this version, or over a limit.
    """
    fields = data[: _FIELDS.size]
    magic, version, kind, header_bytes, payload_bytes, request_id = _FIELDS.unpack(fields)
    if magic != MAGIC:
        is_tls = bytes(magic[:2]) == TLS_BEGINNING
        more = f": {NO_TLS_HERE}" if is_tls else ""
        raise FrameRefused(
            f"expected a frame beginning with {MAGIC!r}, got {magic!r}{more}"
        )
    if version != PROTOCOL_VERSION:
        raise FrameRefused(
            f"expected frames of version {PROTOCOL_VERSION}, got version {version}: run "
            "the same paceline on both ends"
        )
    require_whole(data)
    if kind not in _KINDS:
        raise FrameRefused(f"a frame has the unknown kind {kind}")
    preamble = Preamble(_KINDS[kind], request_id, header_bytes, payload_bytes)
    _check_limits(preamble, limits, "a frame is not received")
    return preamble


def require_whole(preamble: bytes | bytearray | memoryview) -> None:
    """Compare the checksum of a preamble that begins as one of this version.

    Raises:
        FrameDamaged: it does not hold.
    """
    # xxh32 is a bijection of each aligned group of four bytes while the others stand
    # still, so one changed byte is always noticed, not only almost always.
    (checksum,) = _CHECKSUM.unpack(preamble[_FIELDS.size : PREAMBLE_BYTES])
    if checksum != xxhash.xxh32_intdigest(preamble[: _FIELDS.size]):
        raise FrameDamaged(
            "the checksum of a frame's preamble does not match: damaged on the way"
        )


def parse_header(
    data: bytes | bytearray | memoryview, preamble: Preamble, limits: Limits
) -> Header:
    """Read the header of a frame; the message in it is a view of ``data``.

    Raises:
        FrameRefused: not a header, too many buffers, or sizes that do not add up to the
            payload.
    """
    try:
        header = _header_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameRefused(f"the header of a frame cannot be read: {error}") from error
    _check_count(len(header.sizes), limits)
    inline = sum(header.sizes) if header.place is None else 0
    if inline != preamble.payload_bytes:
        raise FrameRefused(
            f"the buffers of a frame have {inline} bytes, its payload has "
            f"{preamble.payload_bytes}"
        )
    return header


def spread(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where buffers of these sizes lie behind a place, and how much room they take."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, total


def _check_limits(preamble: Preamble, limits: Limits, what: str) -> None:
    frame_bytes = preamble.header_bytes + preamble.payload_bytes
    if preamble.header_bytes > limits.header_bytes:
        raise FrameRefused(
            f"{what}: its header has {preamble.header_bytes} bytes, the limit of the link "
            f"is {limits.header_bytes}"
        )
    if frame_bytes > limits.frame_bytes:
        raise FrameRefused(
            f"{what}: it has {frame_bytes} bytes, the limit of the link is "
            f"{limits.frame_bytes}"
        )


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.num_buffers:
        raise FrameRefused(
            f"a frame has {count} buffers, the limit of the link is {limits.num_buffers}"
        )
