import socket

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import FrameRefused, PeerLost
from paceline.transport.frames import (
    DATA_LIMITS,
    MAX_BUFFERS,
    PREAMBLE_BYTES,
    Header,
    Kind,
    Limits,
    Preamble,
    byte_array,
    encode_frame,
    parse_header,
    parse_preamble,
)
from paceline.transport.streams.pieces import FrameReader, Placed
from tests.transport.corridors import Say

unhurried = settings(deadline=None, max_examples=40)
buffer_lists = st.lists(st.binary(max_size=200), max_size=6)


def keep(preamble: Preamble, header: Header) -> Placed:
    """Decode as `Say`, receive into fresh memory."""
    assert preamble.kind in Kind
    message = msgspec.msgpack.decode(header.message, type=Say)
    return message, [np.empty(size, np.uint8) for size in header.sizes]


def read(pieces: list[memoryview], limits: Limits) -> tuple[Preamble, Header]:
    """The first piece of a frame, as a receiver reads it."""
    preamble = parse_preamble(pieces[0][:PREAMBLE_BYTES], limits)
    return preamble, parse_header(pieces[0][PREAMBLE_BYTES:], preamble, limits)


def preamble_of(*buffers: bytes, text: str = "") -> bytes:
    return bytes(encode_frame(Kind.REQUEST, 7, Say(text), buffers)[0][:PREAMBLE_BYTES])


# ------------------------------------------------------------- format


@unhurried
@given(
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.text("aß€", max_size=50),
    buffer_lists,
)
def test_frame_is_received_as_it_was_sent(
    kind: Kind, request_id: int, text: str, buffers: list[bytes]
) -> None:
    pieces = encode_frame(kind, request_id, Say(text), buffers)
    preamble, header = read(pieces, DATA_LIMITS)
    assert preamble[:2] == (kind, request_id)
    assert msgspec.msgpack.decode(header.message, type=Say) == Say(text)
    assert [bytes(piece) for piece in pieces[1:]] == [one for one in buffers if one]
    assert header.sizes == tuple(map(len, buffers))


@unhurried
@given(st.integers(0, PREAMBLE_BYTES - 1), st.integers(1, 255), st.integers(0, 2**63))
def test_any_changed_byte_of_a_preamble_is_noticed(
    position: int, change: int, request_id: int
) -> None:
    data = bytearray(encode_frame(Kind.REPLY, request_id, Say("x"))[0][:PREAMBLE_BYTES])
    data[position] ^= change
    with pytest.raises(FrameRefused):
        parse_preamble(data, DATA_LIMITS)


@unhurried
@given(st.binary(max_size=100))
def test_any_header_is_read_or_refused(data: bytes) -> None:
    try:
        header = parse_header(data, Preamble(Kind.REPLY, 1, len(data), 5), DATA_LIMITS)
    except FrameRefused:
        return
    assert sum(header.sizes) == 5


def test_other_version_is_refused_with_both_versions() -> None:
    data = bytearray(preamble_of())
    data[4] = 9
    with pytest.raises(FrameRefused, match="version 1, got version 9"):
        parse_preamble(data, DATA_LIMITS)


# ------------------------------------------------------------- limits


def test_oversize_frame_is_refused_by_its_preamble() -> None:
    data = preamble_of(bytes(5000))
    with pytest.raises(FrameRefused, match="the limit of the link is 4096"):
        parse_preamble(data, Limits(frame_bytes=4096))


def test_oversize_header_is_refused_by_its_preamble() -> None:
    data = preamble_of(text="x" * 500)
    with pytest.raises(FrameRefused, match=r"header has 5.. bytes, .* is 100"):
        parse_preamble(data, Limits(header_bytes=100))


def test_too_many_buffers_are_refused_on_both_ends() -> None:
    with pytest.raises(FrameRefused, match="3 buffers, the limit of the link is 2"):
        encode_frame(Kind.REPLY, 1, Say(""), [b""] * 3, Limits(num_buffers=2))
    pieces = encode_frame(Kind.REPLY, 1, Say(""), [b""] * 3)
    with pytest.raises(FrameRefused, match="3 buffers, the limit of the link is 2"):
        read(pieces, Limits(num_buffers=2))


def test_a_list_of_sizes_is_bounded_before_it_is_read() -> None:
    count = MAX_BUFFERS + 1
    data = b"\x92\xdd" + count.to_bytes(4, "big")  # announced, but not there
    with pytest.raises(FrameRefused, match=f"length <= {MAX_BUFFERS}"):
        parse_header(data, Preamble(Kind.REPLY, 1, len(data), 0), DATA_LIMITS)


def test_sizes_must_add_up_to_the_payload() -> None:
    pieces = encode_frame(Kind.REPLY, 1, Say(""), [b"1234"])
    with pytest.raises(FrameRefused, match="have 4 bytes, its payload has 5"):
        parse_header(pieces[0][PREAMBLE_BYTES:], Preamble(Kind.REPLY, 1, 1, 5), DATA_LIMITS)


# ------------------------------------------------------------- memory


def test_buffers_are_not_copied() -> None:
    values = np.zeros(4)
    pieces = encode_frame(Kind.REPLY, 1, Say(""), [values])
    values[:] = 1
    assert bytes(pieces[1]) == np.ones(4).tobytes()
    assert np.shares_memory(byte_array(values), values)


# ------------------------------------------------------------- piece by piece


@unhurried
@given(st.lists(st.integers(1, 400), max_size=20), buffer_lists)
def test_frames_may_come_in_any_pieces(cuts: list[int], buffers: list[bytes]) -> None:
    frames = [encode_frame(Kind.REPLY, n, Say(str(n)), buffers) for n in range(2)]
    data = b"".join(bytes(piece) for pieces in frames for piece in pieces)
    reader = FrameReader(DATA_LIMITS, keep)
    found = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        for cut in [*cuts, len(data)]:
            theirs.sendall(data[:cut])
            data = data[cut:]
            while (frame := reader.receive(ours)) is not None:
                found.append(frame)
    assert [frame.request_id for frame in found] == [0, 1]
    assert all([bytes(b) for b in frame.buffers] == buffers for frame in found)


def test_end_of_the_stream_inside_a_frame_is_a_lost_peer() -> None:
    reader = FrameReader(DATA_LIMITS, keep)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.sendall(preamble_of())
        with pytest.raises(PeerLost, match="closed the connection"):
            reader.receive(ours)
