"""What goes through TLS: all of it, in order, whoever reads and writes meanwhile."""

import contextlib
import random
import select
import socket
import ssl
import threading
from collections import deque

import msgspec
import numpy as np
import pytest

from paceline.errors import (
    DeadlineExceeded,
    PeerLost,
)
from paceline.timing import Deadline
from paceline.transport.frames import DATA_LIMITS, Kind, encode_frame
from paceline.transport.greeting import Introduction
from paceline.transport.handshake import NONCE_BYTES, Welcome
from paceline.transport.listener import Bounds
from paceline.transport.requests import OpenRequests
from paceline.transport.streams.connection import StreamConnection
from paceline.transport.streams.pieces import FrameReader, send_some, wait_events
from paceline.transport.streams.tls import (
    MOST_AT_ONCE,
    RECORD_BYTES,
    TlsSocket,
    sealed,
)
from tests.transport.bare import flat, hello_bytes, place
from tests.transport.corridors import (
    CLOCK,
    HELLO,
    PATIENCE_S,
    SECRET,
    Memory,
    Park,
    Said,
    Say,
    TcpCorridor,
    run_threads,
)
from tests.transport.streams.pairs import receive_all, send_all, tcp_pair, tls_pair

# ------------------------------------------------------------- bytes that wake no poll


class Inside:
    """A client that keeps no rule of the house, within TLS."""

    def __init__(self, corridor: TcpCorridor) -> None:
        sock = socket.create_connection(corridor.where, PATIENCE_S)
        sock.setblocking(False)
        self.socket = sealed(sock)
        self._reader = FrameReader(DATA_LIMITS, place)
        while (where := self.socket.shake()) is None:
            assert wait_events(self.socket, select.POLLIN, PATIENCE_S)
        hello = msgspec.structs.replace(HELLO, way="tls")
        mine = Introduction(hello, SECRET, where, bytes(NONCE_BYTES))
        message = mine.hello
        while not isinstance(message, Welcome):
            send_all(self.socket, hello_bytes(message))
            message = mine.answer(self.read())  # type: ignore[arg-type,assignment]

    def read(self) -> msgspec.Struct | None:
        while (frame := self._reader.receive(self.socket)) is None:
            assert wait_events(self.socket, select.POLLIN, PATIENCE_S)
        return frame.message


def test_many_frames_of_one_record_are_all_read(tls: TcpCorridor, service: Memory) -> None:
    """The listener reads one at a time, and the others lie where no poll sees them."""
    tls.listen(service, bounds=Bounds(num_threads=2))
    client = Inside(tls)
    texts = [str(number) for number in range(100)]
    burst = b"".join(
        flat(encode_frame(Kind.REQUEST, number, Say(text)))
        for number, text in enumerate(texts, 1)
    )
    assert len(burst) < RECORD_BYTES
    send_all(client.socket, burst)
    assert [client.read() for _ in texts] == [Said(text) for text in texts]
    client.socket.close()
    tls.close()


def test_many_replies_of_one_record_are_all_read() -> None:
    """Also by threads that wait one after the other, and the last ones find no bytes."""
    mine, theirs = tls_pair()
    welcome = Welcome(run="run-1", role="server-0")
    connection = StreamConnection(
        mine, "a test", welcome, OpenRequests(Said), DATA_LIMITS, CLOCK
    )
    numbers = [connection.submit(Park(str(number))) for number in range(50)]
    burst = b"".join(
        flat(encode_frame(Kind.REPLY, number, Said(str(number)))) for number in numbers
    )
    assert len(burst) < RECORD_BYTES
    send_all(theirs, burst)
    for number in numbers:
        answer = connection.wait_reply(number, PATIENCE_S)
        assert answer.message == Said(str(number))
    connection.close()
    theirs.close()


def test_opened_bytes_are_read_though_there_is_no_room_to_write() -> None:
    mine, theirs = tls_pair()
    fill(mine)
    send_all(theirs, b"ab")
    assert receive_all(mine, 1) == b"a"
    assert wait_events(mine, select.POLLIN, 0) & select.POLLIN
    assert receive_all(mine, 1) == b"b"
    assert not wait_events(mine, select.POLLIN, 0)
    mine.close()
    theirs.close()


def fill(sock: TlsSocket) -> None:
    """Leave no room, not for one record."""
    with contextlib.suppress(BlockingIOError):
        while True:
            socket.socket.send(sock._tls, bytes(RECORD_BYTES))


# ------------------------------------------------------------- large, both ways, at once


def test_frames_of_many_megabytes_go_both_ways(tls: TcpCorridor, service: Memory) -> None:
    tls.listen(service)
    connection = tls.connect()
    arrays = [np.random.default_rng(n).bytes(n) for n in (5 << 20, 3, 20_000, 3 << 20)]
    place = [np.zeros(len(array), np.uint8) for array in arrays]
    answer = connection.call(
        Say("large"), arrays, timeout_s=PATIENCE_S, landing=lambda *_: place
    )
    assert [buffer.tobytes() for buffer in answer.buffers] == arrays
    assert [buffer.tobytes() for buffer in place] == arrays
    assert [buffer.tobytes() for buffer in service.received_buffers[0]] == arrays
    tls.close()


def flood(corridor: TcpCorridor, service: Memory, seconds: float, num_pairs: int) -> int:
    """Two threads for each connection ask and wait at once; how many answers came."""
    corridor.listen(service)
    until = Deadline(CLOCK, seconds)
    counts: list[int] = []
    errors: list[BaseException] = []

    def ask(connection: object, seed: int) -> None:
        rng = random.Random(seed)
        count = 0
        try:
            while not until.is_over():
                sizes = [rng.choice((0, 5, 3000, 40_000, 600_000)) for _ in range(3)]
                arrays = [rng.randbytes(size) for size in sizes]
                name = f"{seed}-{count}"
                answer = connection.call(Say(name), arrays, timeout_s=PATIENCE_S)  # type: ignore[attr-defined]
                assert answer.message == Said(name)
                assert [buffer.tobytes() for buffer in answer.buffers] == arrays
                service.received_buffers.clear()
                count += 1
        except BaseException as error:  # noqa: BLE001  (the test looks at it)
            errors.append(error)
        counts.append(count)

    threads = []
    for number in range(num_pairs):
        connection = corridor.connect()
        threads += [
            threading.Thread(target=ask, args=(connection, 2 * number + n))
            for n in range(2)
        ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + PATIENCE_S)
        assert not thread.is_alive()
    assert not errors
    corridor.close()
    return sum(counts)


@pytest.mark.slow
def test_two_threads_flood_a_connection_both_ways(tls: TcpCorridor) -> None:
    assert flood(tls, Memory(), 3.0, num_pairs=2) > 4


@pytest.mark.soak
def test_two_threads_flood_a_connection_both_ways_for_a_minute(tls: TcpCorridor) -> None:
    assert flood(tls, Memory(), 60.0, num_pairs=3) > 100


@pytest.mark.slow
def test_both_ends_write_and_read_at_the_same_time() -> None:
    """Four threads, two for each TLS object; none waits with the object in its hands."""
    client, listener = tls_pair()
    sent = {name: random.Random(name).randbytes(24 << 20) for name in "ab"}
    got: dict[str, bytes] = {}

    def receive(name: str, source: TlsSocket) -> None:
        got[name] = receive_all(source, len(sent[name]))

    run_threads(
        threading.Thread(target=send_all, args=(client, sent["a"])),
        threading.Thread(target=send_all, args=(listener, sent["b"])),
        threading.Thread(target=receive, args=("b", client)),
        threading.Thread(target=receive, args=("a", listener)),
    )
    assert got == sent
    client.close()
    listener.close()


def test_a_listener_sends_while_its_peer_reads_nothing(
    tls: TcpCorridor, service: Memory
) -> None:
    """A reply that was half sealed is queued, and goes on where it stopped."""
    tls.listen(service, bounds=Bounds(patience_s=0.0))
    client = Inside(tls)
    data = [np.random.default_rng(n).bytes(6 << 20) for n in range(2)]
    for name in "01":
        send_all(client.socket, flat(encode_frame(Kind.REQUEST, 1, Park(name))))
    for reply, array in zip(service.wait_parked("0", "1"), data, strict=True):
        reply(Said("x"), [array])
    reader = FrameReader(DATA_LIMITS, place)
    for array in data:
        while (frame := reader.receive(client.socket)) is None:
            assert wait_events(client.socket, select.POLLIN, PATIENCE_S)
        assert frame.buffers[0].tobytes() == array
    client.socket.close()
    tls.close()


def test_small_pieces_go_together_and_large_ones_alone() -> None:
    client, listener = tls_pair()
    small, large = bytes(100), bytes(RECORD_BYTES)
    views = [memoryview(view) for view in (small, small, large, small)]
    assert client.sendmsg(views) == 200
    assert client.sendmsg(views[2:]) == RECORD_BYTES
    assert client.send(memoryview(bytes(10 * MOST_AT_ONCE))) <= MOST_AT_ONCE
    client.close()
    listener.close()


# ------------------------------------------------------------- reads that want writes


class FakeTls:
    """Says what the test says; no real one can be made to want the other way round."""

    def __init__(self) -> None:
        self.reads: list[Exception | bytes] = []
        self.writes: list[Exception | int] = []
        self.owner: TlsSocket | None = None
        self.calls: list[str] = []

    def _called(self, name: str) -> None:
        assert self.owner is not None
        assert self.owner._lock.locked(), f"{name} beside another call"
        self.calls.append(name)

    def wrap_socket(self, sock: socket.socket, **_: object) -> "FakeTls":
        self.fileno, self.close = sock.fileno, sock.close
        return self

    def do_handshake(self) -> None:
        self._called("do_handshake")

    def getpeercert(self, *, binary_form: bool) -> bytes:
        self._called("getpeercert")
        return bytes(binary_form)

    def pending(self) -> int:
        self._called("pending")
        return 0

    def recv_into(self, view: memoryview) -> int:
        self._called("recv_into")
        found = self.reads.pop(0)
        if isinstance(found, Exception):
            raise found
        view[: len(found)] = found
        return len(found)

    def send(self, view: memoryview) -> int:
        self._called("send")
        found = self.writes.pop(0)
        if isinstance(found, Exception):
            raise found
        return min(found, len(view))


def test_a_read_that_wants_to_write_waits_for_room_and_the_reverse() -> None:
    mine, theirs = tcp_pair()
    fake = FakeTls()
    ours = fake.owner = TlsSocket(mine, fake, is_listener=False)  # type: ignore[arg-type]
    assert ours.shake() is not None
    both = select.POLLIN | select.POLLOUT
    assert ours.needs(select.POLLIN) == select.POLLIN
    assert ours.needs(select.POLLOUT) == select.POLLOUT
    assert not ours.may_read(select.POLLOUT)
    fake.reads = [ssl.SSLWantWriteError(), b"x"]
    with pytest.raises(BlockingIOError):
        ours.recv_into(memoryview(bytearray(1)))
    assert ours.needs(select.POLLIN) == select.POLLOUT
    assert ours.may_read(select.POLLOUT)
    assert ours.recv_into(memoryview(bytearray(1))) == 1
    assert ours.needs(both) == both
    fake.writes = [ssl.SSLWantReadError(), 3]
    pieces = deque([memoryview(b"abc")])
    assert send_some(ours, pieces) == 0
    assert ours.needs(select.POLLOUT) == select.POLLIN
    assert send_some(ours, pieces) == 3
    assert ours.needs(both) == both
    ours.close()
    theirs.close()


def test_no_two_calls_are_made_on_one_tls_object() -> None:
    mine, theirs = tcp_pair()
    fake = FakeTls()
    ours = fake.owner = TlsSocket(mine, fake, is_listener=False)  # type: ignore[arg-type]
    fake.reads, fake.writes = [b"x", b"y"], [1, 1]
    assert ours.shake() is not None
    ours.recv_into(memoryview(bytearray(1)))
    ours.recvmsg_into([memoryview(bytearray(1))])
    ours.send(memoryview(b"x"))
    ours.sendmsg([memoryview(b"x")])
    ours.has_unread()
    ours.needs(select.POLLIN)
    ours.may_read(select.POLLOUT)
    made = {"do_handshake", "getpeercert", "recv_into", "send", "pending"}
    assert set(fake.calls) == made
    ours.close()
    theirs.close()


def test_a_socket_that_is_shut_does_not_read_on_without_tls() -> None:
    """Another thread may be about to read just then."""
    mine, theirs = tls_pair()
    send_all(theirs, b"within")
    assert select.select([mine], [], [], PATIENCE_S)[0]
    mine.shutdown(socket.SHUT_RDWR)
    view = bytearray(100)
    assert view[: mine.recv_into(memoryview(view))] == b"within"
    assert mine.recv_into(memoryview(view)) == 0
    mine.close()
    theirs.close()


def test_a_connection_gives_up_a_request_that_was_sealed_only_in_part() -> None:
    """What follows would go out behind half of it."""
    mine, theirs = tls_pair()
    welcome = Welcome(run="run-1", role="server-0")
    connection = StreamConnection(
        mine, "a test", welcome, OpenRequests(Said), DATA_LIMITS, CLOCK
    )
    more = [bytes(32 << 20)]  # than the kernel makes room for, while nobody reads
    with pytest.raises(DeadlineExceeded, match="the peer takes no request"):
        connection.submit(Say("x"), more, timeout_s=0.02)
    with pytest.raises(PeerLost, match="sent only in part"):
        connection.submit(Say("y"))
    connection.close()
    theirs.close()
