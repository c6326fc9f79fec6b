"""Everything that reads bytes from strangers, each as one function of bytes.

::

    preamble    the fixed start of a frame
    header      sizes and message, as they lie behind a preamble
    stream      frames, one behind the other, as a socket would bring them
    checked     the same with checksums, where a plain link is between two hosts
    frame       one frame whose preamble is right and whose header is anything
    listener    the handshake at a listener's end: frames of a client
    client      the handshake at a client's end: frames of a listener
    messages    the union of every link, one after the other

A function returns, whatever the bytes: they are read, or refused in the way that the
caller of the parser expects. Anything else that is raised is a bug, and so is an end of the
process or more memory than the limits allow. For fuzzers, and for tests that make bytes up.

Pure.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import final

import msgspec

from paceline.errors import FrameRefused, HandshakeRefused, PeerLost
from paceline.messages.data import DataReply, DataRequest
from paceline.messages.server import Orders, ServerReport
from paceline.messages.shared import Refusal
from paceline.messages.trainer import TrainerReply, TrainerRequest
from paceline.messages.watching import AskStatus, JobStatus, LauncherOrders, LauncherReport
from paceline.transport.connection import MessageType
from paceline.transport.frames import (
    CHECKSUM_BYTES,
    PREAMBLE_BYTES,
    Header,
    Kind,
    Limits,
    Preamble,
    allocate,
    encode_preamble,
    parse_header,
    parse_preamble,
)
from paceline.transport.greeting import Introduction, Reception
from paceline.transport.handshake import (
    FAREWELL,
    FROM_CLIENT,
    FROM_LISTENER,
    NONCE_BYTES,
    Hello,
    HelloCheck,
    Secret,
)
from paceline.transport.requests import decode_message
from paceline.transport.streams.pieces import FrameReader, Placed

Parser = Callable[[bytes], None]

LIMITS = Limits(header_bytes=1 << 12, frame_bytes=1 << 14, num_buffers=64)
LINKS: dict[str, MessageType] = {
    "trainer to coordinator": TrainerRequest,
    "coordinator to trainer": TrainerReply,
    "trainer to server": DataRequest,
    "server to trainer": DataReply,
    "server to coordinator": ServerReport,
    "coordinator to server": Orders | Refusal,
    "launcher to coordinator": LauncherReport | AskStatus,
    "coordinator to launcher": LauncherOrders | JobStatus | Refusal,
}
_DECODERS: dict[str, msgspec.msgpack.Decoder[msgspec.Struct]] = {
    link: msgspec.msgpack.Decoder(kind) for link, kind in LINKS.items()
}
_SECRET = Secret(bytes(32))
_NONCE = bytes(NONCE_BYTES)


@final
class BytesSource:
    """Bytes that can be received as from a socket, and then the end of the stream."""

    def __init__(self, data: bytes) -> None:
        """Nothing is received yet."""
        self._rest = memoryview(data)

    def recv_into(self, buffer: memoryview) -> int:
        """Fill one buffer; 0 at the end, as `socket.socket.recv_into`."""
        return self.recvmsg_into([buffer])[0]

    def recvmsg_into(self, buffers: Sequence[memoryview]) -> tuple[int, list[object]]:
        """Fill buffers; 0 bytes at the end, as `socket.socket.recvmsg_into`."""
        count = 0
        for buffer in buffers:
            part = self._rest[: buffer.nbytes]
            buffer[: part.nbytes] = part
            self._rest = self._rest[part.nbytes :]
            count += part.nbytes
        return count, []


def read_preamble(data: bytes) -> None:
    """The first bytes as a preamble."""
    try:
        preamble = parse_preamble(
            data[:PREAMBLE_BYTES].ljust(PREAMBLE_BYTES, b"\0"), LIMITS
        )
    except FrameRefused:
        return
    assert preamble.header_bytes <= LIMITS.header_bytes
    assert preamble.header_bytes + preamble.payload_bytes <= LIMITS.frame_bytes


def read_header(data: bytes) -> None:
    """All bytes but the first two as a header; those are the size of the payload."""
    payload_bytes = int.from_bytes(data[:2], "big")
    preamble = Preamble(Kind.REQUEST, 1, len(data), payload_bytes)
    try:
        header = parse_header(data[2:], preamble, LIMITS)
    except FrameRefused:
        return
    assert sum(header.sizes) == payload_bytes
    assert min(header.sizes, default=0) >= 0


def read_stream(data: bytes, *, is_checked: bool = False) -> None:
    """All bytes as frames, until one is refused or the stream ends."""
    num_allocated = 0

    def place(preamble: Preamble, header: Header) -> Placed:
        nonlocal num_allocated
        assert preamble.payload_bytes == sum(header.sizes)
        num_allocated += preamble.payload_bytes
        return None, allocate(header.sizes)

    reader = FrameReader(LIMITS._replace(is_checked=is_checked), place)
    source = BytesSource(data)
    try:
        while reader.receive(source) is not None:  # type: ignore[arg-type]  # see there
            pass
    except (FrameRefused, PeerLost):
        assert num_allocated <= len(data) + LIMITS.frame_bytes


def read_checked(data: bytes) -> None:
    """The same with checksums, and all bytes as a header behind which none holds."""
    read_stream(data, is_checked=True)
    start = encode_preamble(Preamble(Kind.REQUEST, 1, len(data), 0))
    read_stream(start + data + bytes(CHECKSUM_BYTES), is_checked=True)


def read_frame(data: bytes) -> None:
    """All bytes as the header of a frame whose preamble announces it, with no payload."""
    read_stream(encode_preamble(Preamble(Kind.REQUEST, 1, len(data), 0)) + data)


def read_as_listener(data: bytes) -> None:
    """All bytes as a client's messages: the first, and the one after a challenge."""
    for has_secret, is_challenged in itertools.product((False, True), repeat=2):
        secret = _SECRET if has_secret else None
        check = HelloCheck("r", "server-0", {"trainer"})
        reception = Reception(check, [secret] if secret else [], b"", _NONCE)
        if is_challenged and has_secret:
            known = Hello(run="r", role="trainer-0", nonce=_NONCE, key=_SECRET.key_id)
            reception.answer(known)
        try:
            message = decode_message(FROM_CLIENT, _header(data))
            msgspec.msgpack.encode(reception.answer(message))
        except (FrameRefused, HandshakeRefused):
            continue


def read_as_client(data: bytes) -> None:
    """All bytes as a listener's message: a farewell, or an answer at any stage."""
    for secret in (None, _SECRET):
        hello = Hello(run="r", role="trainer-0")
        introduction = Introduction(hello, secret, b"", _NONCE)
        for _ in range(2):
            try:
                answer = introduction.answer(decode_message(FROM_LISTENER, _header(data)))
                msgspec.msgpack.encode(answer)
            except (FrameRefused, HandshakeRefused):
                break
    try:
        decode_message(FAREWELL, _header(data))
    except FrameRefused:
        return


def read_messages(data: bytes) -> None:
    """All bytes as a message of every link; what was read can be sent on."""
    for decoder in _DECODERS.values():
        try:
            message = decode_message(decoder, _header(data))
        except FrameRefused:
            continue
        again = msgspec.msgpack.encode(message)
        same = msgspec.msgpack.encode(decode_message(decoder, _header(again)))
        assert same == again  # not the messages: a NaN in them equals nothing


PARSERS: dict[str, Parser] = {
    "preamble": read_preamble,
    "header": read_header,
    "stream": read_stream,
    "checked": read_checked,
    "frame": read_frame,
    "listener": read_as_listener,
    "client": read_as_client,
    "messages": read_messages,
}


def _header(data: bytes) -> Header:
    return Header((), msgspec.Raw(data))
