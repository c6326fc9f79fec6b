"""What only sockets can do wrong, whatever kind of stream they are."""

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from paceline.errors import DeadlineExceeded, HandshakeRefused, PeerLost
from paceline.transport import mailbox
from paceline.transport.connection import Answer
from paceline.transport.frames import Kind, encode_frame
from paceline.transport.handshake import Farewell
from paceline.transport.listener import Bounds
from tests.transport.bare import (
    BareListener,
    BareSocket,
    bare_client,
    flat,
    greeted_client,
)
from tests.transport.corridors import (
    PATIENCE_S,
    Corridor,
    Memory,
    Park,
    Said,
    Say,
    TcpCorridor,
    UnixCorridor,
)


@pytest.fixture(params=[UnixCorridor, TcpCorridor], ids=["unix", "tcp"])
def stream(request: pytest.FixtureRequest) -> Iterator[Corridor]:
    opened: Corridor = request.param()
    yield opened
    opened.close()


# ------------------------------------------------------------- slow and broken peers


def test_queued_rest_of_a_reply_is_sent_when_the_peer_reads(
    stream: Corridor, service: Memory
) -> None:
    stream.listen(service, bounds=Bounds(patience_s=0.0))
    connection = stream.connect()
    numbers = [connection.submit(Park(name)) for name in "ab"]
    sent = np.arange(1 << 19)  # 4 MiB
    for reply in service.wait_parked(*"ab"):
        values = sent.copy()
        reply(Said(""), [values])
        values[:] = 0  # the caller's again, sent or not
    for number in numbers:
        [received] = connection.wait_reply(number, PATIENCE_S).buffers
        assert np.array_equal(received.view(np.int64), sent)


def test_bytes_that_are_no_frame_close_the_connection(
    stream: Corridor, service: Memory
) -> None:
    listener = stream.listen(service)
    peer = bare_client(stream)
    with peer.socket:
        peer.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        [farewell] = peer.read_to_end()
    assert isinstance(farewell, Farewell)
    assert "expected a frame beginning with b'PACE'" in farewell.reason
    listener.close(PATIENCE_S)
    assert listener.counters()["malformed"] == 1


def test_request_before_the_hello_is_refused(stream: Corridor, service: Memory) -> None:
    stream.listen(service)
    peer = bare_client(stream)
    with peer.socket:
        peer.socket.sendall(flat(encode_frame(Kind.REQUEST, 1, Say("early"))))
        [farewell] = peer.read_to_end()
    assert isinstance(farewell, Farewell)
    assert not service.received_messages


def test_request_may_come_byte_by_byte(stream: Corridor, service: Memory) -> None:
    stream.listen(service)
    peer = greeted_client(stream, slowly=True)
    with peer.socket:
        request = encode_frame(Kind.REQUEST, 5, Say("slowly"), [b"buffer"])
        peer.send(flat(request), slowly=True)
        frame = peer.read()
    assert (frame.request_id, frame.message) == (5, Said("slowly"))


def test_who_says_no_hello_is_parted_from(stream: Corridor, service: Memory) -> None:
    listener = stream.listen(service, bounds=Bounds(handshake_s=0.04))
    peer = bare_client(stream)
    with peer.socket:
        assert peer.read_to_end() == [Farewell("no hello in time")]
    listener.close(PATIENCE_S)
    assert listener.counters()["mute"] == 1
    assert not service.gone


def test_crowd_is_turned_away(stream: Corridor, service: Memory) -> None:
    stream.listen(service, bounds=Bounds(num_connections=1))
    first = stream.connect()
    with pytest.raises(HandshakeRefused, match="1 connections are enough"):
        stream.connect()
    assert first.call(Say("in"), timeout_s=PATIENCE_S).message == Said("in")


def test_peer_lost_inside_a_reply_is_lost(stream: Corridor) -> None:
    def answer_half(peer: BareSocket) -> None:
        frame = peer.read()
        reply = flat(encode_frame(Kind.REPLY, frame.request_id, Said(""), [bytes(100)]))
        peer.socket.sendall(reply[:-50])

    with (
        BareListener(stream, answer_half),
        stream.connect() as connection,
        pytest.raises(PeerLost, match="the other end has closed the connection"),
    ):
        connection.call(Say(""), timeout_s=PATIENCE_S)


def test_landing_given_up_inside_a_reply_is_not_written_any_more(
    stream: Corridor,
) -> None:
    is_landing, is_given_up = threading.Event(), threading.Event()

    def answer_in_halves(peer: BareSocket) -> None:
        first, second = peer.read(), peer.read()
        reply = flat(encode_frame(Kind.REPLY, first.request_id, Said(""), [b"\1" * 100]))
        peer.socket.sendall(reply[:-50])
        assert is_given_up.wait(PATIENCE_S)
        peer.socket.sendall(reply[-50:])
        last = encode_frame(Kind.REPLY, second.request_id, Said("second"))
        peer.socket.sendall(flat(last))

    memory = bytearray(100)

    def landing(*_: object) -> list[bytearray]:
        is_landing.set()
        return [memory]

    answers: list[Answer] = []
    with BareListener(stream, answer_in_halves), stream.connect() as connection:
        first = connection.submit(Say("first"), landing=landing)
        second = connection.submit(Say("second"))
        reading = threading.Thread(
            target=lambda: answers.append(connection.wait_reply(second, PATIENCE_S))
        )
        reading.start()
        assert is_landing.wait(PATIENCE_S)
        with pytest.raises(DeadlineExceeded):
            connection.wait_reply(first, 0.0)
        half = bytes([1] * 50 + [0] * 50)
        assert memory == half
        is_given_up.set()
        reading.join(PATIENCE_S)
    assert memory == half
    assert [answer.message for answer in answers] == [Said("second")]


def test_half_sent_request_closes_the_connection(
    stream: Corridor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "LEAST_BYTES", 1 << 40)  # through the socket
    may_end = threading.Event()

    def read_nothing(_: BareSocket) -> None:
        assert may_end.wait(PATIENCE_S)

    with BareListener(stream, read_nothing), stream.connect() as connection:
        with pytest.raises(DeadlineExceeded, match="takes no request"):
            connection.call(Say(""), [bytes(8 << 20)], timeout_s=0.05)
        with pytest.raises(PeerLost, match="sent only in part"):
            connection.submit(Say(""))
        may_end.set()


def test_forked_process_may_not_use_the_connection(
    stream: Corridor, service: Memory
) -> None:
    stream.listen(service)
    connection = stream.connect()
    pid = os.fork()
    if pid == 0:
        try:
            connection.submit(Say("from the child"))
        except PeerLost:
            os._exit(17)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 17
    assert connection.call(Say("parent"), timeout_s=PATIENCE_S).message == Said("parent")


def test_forked_process_does_not_keep_a_dead_parents_connections_alive(
    stream: Corridor,
) -> None:
    gone = threading.Event()

    def script(bare: BareSocket) -> None:
        bare.socket.settimeout(None)  # a time-out would look like the end
        bare.read_to_end()
        gone.set()

    with BareListener(stream, script), stream.connect() as connection:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os.read(reading, 1)  # lives until it is told to go
            os._exit(0)
        try:
            connection._socket.close()  # as the kernel does when its owner is killed
            assert gone.wait(PATIENCE_S), "the forked process still holds the socket"
        finally:
            os.close(writing)
            os.waitpid(pid, 0)
            os.close(reading)


def test_close_leaves_no_thread_or_descriptor(stream: Corridor, service: Memory) -> None:
    before = set(os.listdir("/proc/self/fd"))
    listener = stream.listen(service)
    connection = stream.connect()
    silent = bare_client(stream)
    connection.submit(Park("never"))
    service.wait_parked("never")
    listener.close(PATIENCE_S)
    connection.close()
    silent.socket.close()
    assert set(os.listdir("/proc/self/fd")) == before
    assert not [t for t in threading.enumerate() if t.name.startswith("paceline")]
