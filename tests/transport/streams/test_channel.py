"""A channel brings what was sent, in order, or says why not; no length is believed."""

import socket
import threading
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import FrameRefused, PeerLost
from paceline.transport.frames import (
    Kind,
    Limits,
    Preamble,
    encode_frame,
    encode_preamble,
)
from paceline.transport.streams import FrameChannel

LIMITS = Limits(header_bytes=200, frame_bytes=4096, num_buffers=4)


class Said(msgspec.Struct, frozen=True, tag=True):
    """What the two say."""

    text: str


SAID: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)
FRAMES = st.lists(
    st.tuples(
        st.text(max_size=20).map(Said),
        st.lists(st.binary(max_size=100), max_size=LIMITS.num_buffers),
    ),
    max_size=4,
)


class Pair:
    """A channel and the raw other end of it."""

    def __init__(self) -> None:
        end, self.raw = socket.socketpair()
        end.settimeout(0.05)
        self.channel = FrameChannel(end, SAID, LIMITS, "the other")

    def close(self) -> None:
        self.channel.close()
        self.raw.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def frame(message: msgspec.Struct, buffers: Sequence[bytes] = ()) -> bytes:
    return b"".join(encode_frame(Kind.REQUEST, 0, message, buffers))


@given(FRAMES, st.integers(1, 64))
def test_what_comes_in_pieces_comes_as_it_was_sent(
    frames: list[tuple[Said, list[bytes]]], piece: int
) -> None:
    made = Pair()
    data = b"".join(frame(*one) for one in frames)

    def send() -> None:
        for start in range(0, len(data), piece):
            made.raw.sendall(data[start : start + piece])

    sender = threading.Thread(target=send)  # a socket holds few pieces of a byte
    sender.start()
    for message, buffers in frames:
        came = made.channel.receive()
        assert came.message == message
        assert [bytes(one) for one in came.buffers] == buffers
    sender.join()
    made.close()


@given(FRAMES)
def test_two_channels_understand_each_other(frames: list[tuple[Said, list[bytes]]]) -> None:
    ours, theirs = socket.socketpair()
    near = FrameChannel(ours, SAID, LIMITS, "the far one")
    far = FrameChannel(theirs, SAID, LIMITS, "the near one")
    for message, buffers in frames:
        near.send(message, buffers)
        assert far.receive().message == message
    near.close()
    with pytest.raises(PeerLost, match="the near one has hung up"):
        far.receive()
    far.close()


def test_what_does_not_fit_into_the_kernel_is_sent_whole() -> None:
    ours, theirs = socket.socketpair()
    limits = LIMITS._replace(frame_bytes=1 << 24)
    near = FrameChannel(ours, SAID, limits, "the far one")
    far = FrameChannel(theirs, SAID, limits, "the near one")
    numbers = np.arange(1 << 20)
    sending = threading.Thread(target=near.send, args=(Said("large"), [numbers]))
    sending.start()
    [came] = far.receive().buffers
    sending.join()
    assert (came.view(numbers.dtype) == numbers).all()
    near.close()
    far.close()


@pytest.mark.parametrize(
    ("message", "buffers", "why"),
    [
        (Said("x" * 300), [], "its header has 3.. bytes, the limit of the link is 200"),
        (Said(""), [bytes(5000)], "it has 50.. bytes, the limit of the link is 4096"),
        (Said(""), [b""] * 5, "5 buffers, the limit of the link is 4"),
    ],
)
def test_what_is_over_a_limit_is_not_sent_and_harms_nobody(
    message: Said, buffers: list[bytes], why: str, pair: Pair
) -> None:
    with pytest.raises(FrameRefused, match=why):
        pair.channel.send(message, buffers)
    pair.channel.send(Said("small"))
    assert pair.raw.recv(4096) == frame(Said("small"))


@pytest.mark.parametrize("size", [LIMITS.header_bytes + 1, (1 << 32) - 1])
def test_a_length_over_the_limit_is_not_believed(size: int, pair: Pair) -> None:
    pair.raw.sendall(encode_preamble(Preamble(Kind.REQUEST, 0, size, 0)))
    with pytest.raises(FrameRefused, match="a frame is not received: its header has"):
        pair.channel.receive()


@pytest.mark.parametrize("at", [0, 4, 8, 12, 20, 31, 40])
def test_damage_is_refused(at: int, pair: Pair) -> None:
    data = bytearray(frame(Said("text")))
    data[at] ^= 0xFF
    pair.raw.sendall(data)
    with pytest.raises(FrameRefused):
        pair.channel.receive()


def test_another_language_is_refused(pair: Pair) -> None:
    class Song(msgspec.Struct, tag=True):
        """Not what is said here."""

    pair.raw.sendall(frame(Song()))
    with pytest.raises(FrameRefused, match="cannot be decoded"):
        pair.channel.receive()


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_who_hangs_up_in_the_middle_is_named(size: int, pair: Pair) -> None:
    pair.raw.sendall(frame(Said("text" * 5))[:size])
    pair.raw.close()
    with pytest.raises(PeerLost, match="the other has hung up"):
        pair.channel.receive()


def test_who_says_nothing_within_the_time_out_is_lost(pair: Pair) -> None:
    pair.raw.sendall(frame(Said("text"))[:10])
    with pytest.raises(PeerLost, match="timed out"):
        pair.channel.receive()
