"""A peer that reads slowly, or not at all, costs little and holds up nobody else."""

import tracemalloc
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from paceline.errors import PeerLost
from paceline.timing import Deadline, SystemClock
from paceline.transport.connection import Connection
from paceline.transport.frames import ByteArray, Kind, encode_frame
from paceline.transport.listener import Bounds
from paceline.transport.service import Peer, Reply
from tests.transport.bare import BareSocket, flat, greeted_client
from tests.transport.corridors import (
    HELLO,
    PATIENCE_S,
    Corridor,
    Memory,
    Park,
    Said,
    Say,
    TcpCorridor,
    UnixCorridor,
)

MIB = 1 << 20
CREDIT = Bounds().credit_bytes


@pytest.fixture(params=[UnixCorridor, TcpCorridor], ids=["unix", "tcp"])
def stream(request: pytest.FixtureRequest) -> Iterator[Corridor]:
    opened: Corridor = request.param()
    yield opened
    opened.close()


class Generous:
    """Answers every request with the same large values."""

    def __init__(self, num_bytes: int) -> None:
        self.values = np.ones(num_bytes, np.uint8)
        self.num_asked = self.num_answered = 0

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        assert not buffers
        if peer.role == "trainer-9":
            reply(Said("others"))
            return
        assert isinstance(message, Say)
        self.num_asked += 1
        reply(Said(message.text), [self.values])
        self.num_answered += 1

    def disconnected(self, peer: Peer) -> None:
        """Nothing is to be done."""


def call_others(other: Connection) -> None:
    answer = other.call(Say("others"), timeout_s=PATIENCE_S)
    assert answer.message == Said("others")


def ask_often(peer: BareSocket, times: int) -> None:
    for number in range(times):
        frame = encode_frame(Kind.REQUEST, number + 1, Say(str(number)))
        peer.socket.sendall(flat(frame))


def test_who_asks_for_much_and_reads_nothing_costs_one_reply(stream: Corridor) -> None:
    service = Generous(16 * MIB)
    listener = stream.listen(service, bounds=Bounds(patience_s=0.0))
    hello = msgspec.structs.replace(HELLO, role="trainer-9")
    other, slow = stream.connect(hello), greeted_client(stream)
    tracemalloc.start()
    try:
        with slow.socket:
            ask_often(slow, 20)
            deadline = Deadline(SystemClock(), PATIENCE_S)
            while not service.num_answered:  # the first question is on its way
                assert not deadline.is_over(), "nobody answers who reads nothing"
                call_others(other)
            for _ in range(50):  # enough for all 20 to be read, if any more were
                call_others(other)
            _, peak = tracemalloc.get_traced_memory()
            asked = service.num_asked  # once it hangs up, what it has sent is read
    finally:
        tracemalloc.stop()
    assert asked == 1
    assert 8 * MIB < peak <= 1.1 * CREDIT
    assert listener.counters().get("slow", 0) == 0


def test_who_reads_slowly_gets_every_reply_in_order(stream: Corridor) -> None:
    service = Generous(4 * MIB)
    stream.listen(service, bounds=Bounds(patience_s=0.0))
    slow = greeted_client(stream)
    with slow.socket:
        ask_often(slow, 12)
        for number in range(12):
            frame = slow.read()
            assert frame.message == Said(str(number))
            assert frame.buffers[0].nbytes == 4 * MIB
    assert service.num_asked == 12


def test_who_sends_much_before_it_reads_anything_is_answered(
    stream: Corridor, service: Memory
) -> None:
    stream.listen(service, bounds=Bounds(patience_s=0.0))
    connection = stream.connect()
    numbers = [connection.submit(Say(""), [bytes(2 * MIB)]) for _ in range(12)]
    for number in numbers:
        assert connection.wait_reply(number, PATIENCE_S).buffers[0].nbytes == 2 * MIB


def test_replies_that_were_parked_close_a_peer_that_does_not_read_at_its_credit(
    stream: Corridor, service: Memory
) -> None:
    bounds = Bounds(credit_bytes=8 * MIB, patience_s=0.0)
    listener = stream.listen(service, bounds=bounds)
    other, slow = stream.connect(), stream.connect()
    names = [f"parked {number}" for number in range(20)]
    numbers = [slow.submit(Park(name)) for name in names]
    for reply in service.wait_parked(*names):
        reply(Said(""), [np.zeros(MIB, np.uint8)])
    service.wait_gone(1)
    assert listener.counters()["slow"] == 1
    with pytest.raises(PeerLost):
        slow.wait_reply(numbers[-1], PATIENCE_S)
    assert other.call(Say("others"), timeout_s=PATIENCE_S).message == Said("others")
