"""What travels between the processes of a trainer comes as it was sent."""

import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import PeerLost
from paceline.trainer.group import wire as wire
from paceline.transport.streams import FrameChannel

Ends = tuple[FrameChannel[wire.FromFollower], FrameChannel[wire.FromLeader]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The leader's end and the follower's."""
    first, second = socket.socketpair()
    leader = FrameChannel(first, wire.CALLS, wire.LIMITS, "rank 1")
    follower = FrameChannel(second, wire.INSTRUCTIONS, wire.LIMITS, "rank 0")
    yield leader, follower
    leader.close()
    follower.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    buffers=st.lists(st.binary(max_size=40), max_size=4),
    numbers=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False)),
)
def test_messages_come_in_order_with_their_buffers(
    buffers: list[bytes], numbers: dict[str, float], ends: Ends
) -> None:
    leader, follower = ends
    told = wire.Tell(numbers, stop="enough")
    follower.send(told)
    follower.send(wire.Lookup(1, "rows", True), buffers)
    assert leader.receive() == (told, [])
    message, came = leader.receive()
    assert message == wire.Lookup(1, "rows", True)
    assert [bytes(one) for one in came] == buffers


def test_who_hangs_up_is_named(ends: Ends) -> None:
    leader, follower = ends
    follower.close()
    with pytest.raises(PeerLost, match="rank 1 has hung up"):
        leader.receive()
