"""Whatever a stranger sends is read or refused: never a crash, never more memory."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.messages.trainer import SharePart
from paceline.transport.frames import Kind, encode_frame
from paceline.transport.handshake import (
    Challenge,
    Farewell,
    Hello,
    Proof,
    Welcome,
)
from tests.testing.parsers import LINKS, PARSERS, read_messages, read_stream
from tests.testing.wire_values import damaged, message_bytes

unhurried = settings(deadline=None, max_examples=50)
few = settings(deadline=None, max_examples=15)  # making one up takes most of the time
handshakes = message_bytes(Hello | Proof | Challenge | Welcome) | message_bytes(Farewell)


@pytest.mark.parametrize("name", PARSERS)
@unhurried
@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=b"\xc1")  # the one byte that msgpack never begins with
@example(data=b"\x91" * 5000)  # five thousand arrays, one in the other
@example(data=b"\xdd\xff\xff\xff\xff")  # an array of four billion, not there
@example(data=b"\x81\xa4type\xa4\xff\xff\xff\xff")  # a name that is no UTF-8
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    PARSERS[name](data)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.slow
@few
@given(data=st.data())
def test_any_message_whole_or_damaged_is_read_or_refused(
    link: str, data: st.DataObject
) -> None:
    read_messages(data.draw(damaged(message_bytes(LINKS[link]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["listener", "client"])
@unhurried
@given(data=damaged(handshakes))
def test_any_handshake_is_read_or_refused(name: str, data: bytes) -> None:
    PARSERS[name](data)


@pytest.mark.slow
@unhurried
@given(st.lists(st.binary(max_size=40), max_size=3), st.integers(0, 500), st.binary())
def test_frames_with_anything_behind_them_are_read_or_refused(
    buffers: list[bytes], cut: int, more: bytes
) -> None:
    pieces = encode_frame(Kind.REQUEST, 1, Farewell("reason"), buffers)
    read_stream(b"".join(bytes(piece) for piece in pieces)[:cut] + more)


@pytest.mark.parametrize(
    "optimizer", [{"type": "sgd", "lr": -1.0}, {"type": "ftrl", "lr": 0.0}]
)
def test_values_out_of_range_are_refused_like_any_other(optimizer: object) -> None:
    """They check themselves when they are made, with an error of their own."""
    table = {"name": "t", "dim": 1, "optimizer": optimizer, "init": {"type": "zeros"}}
    spec = {
        "part": 0,
        "parameters": [],
        "optimizer": None,
        "tables": [table],
        "pace": {"type": "sync"},
    }
    told = {"type": "SharePart", "incarnation": 1, "timeline": 0, "spec": spec}
    data = msgspec.msgpack.encode(told)
    read_messages(data)
    with pytest.raises(UsageError, match="lr must be"):
        msgspec.msgpack.decode(data, type=SharePart)
