"""What only sockets can do wrong."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paceline.errors import DeadlineExceeded, HandshakeRefused, PeerLost, UsageError
from paceline.transport.connection import Answer
from paceline.transport.frames import (
    DATA_LIMITS,
    HANDSHAKE_LIMITS,
    Header,
    Kind,
    Preamble,
    encode_frame,
)
from paceline.transport.handshake import Farewell, Hello, Welcome
from paceline.transport.listener import Bounds, Listener
from paceline.transport.receiving import Frame, FrameReader, Placed
from tests.transport.corridors import (
    HELLO,
    PATIENCE_S,
    Memory,
    Park,
    Said,
    Say,
    UnixCorridor,
)


def flat(pieces: list[memoryview]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def place(preamble: Preamble, header: Header) -> Placed:
    assert preamble.kind in Kind
    message = msgspec.msgpack.decode(
        header.message, type=Hello | Welcome | Farewell | Say | Said | Park
    )
    return message, [np.empty(size, np.uint8) for size in header.sizes]


class BareSocket:
    """A socket that speaks frames but keeps no rule; blocks, at most `PATIENCE_S`."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(PATIENCE_S)
        self._reader = FrameReader(DATA_LIMITS, place)

    def read(self) -> Frame:
        frame = self._reader.receive(self.socket)
        assert frame is not None
        return frame

    def read_to_end(self) -> list[msgspec.Struct | None]:
        messages = []
        try:
            while True:
                messages.append(self.read().message)
        except PeerLost:
            return messages


def bare_client(unix: UnixCorridor) -> BareSocket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(unix.path))
    return BareSocket(sock)


class BareListener:
    """Accepts one connection, shakes hands, then does what the test says, in a thread."""

    def __init__(self, unix: UnixCorridor, script: Callable[[BareSocket], None]) -> None:
        self._script = script
        self._path = unix.path
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(unix.path))
        self._door.listen()
        self._door.settimeout(PATIENCE_S)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        self._door.close()
        self._path.unlink()

    def _run(self) -> None:
        sock, _ = self._door.accept()
        with sock:
            peer = BareSocket(sock)
            peer.read()
            welcome = Welcome(run="run-1", role="server-0")
            sock.sendall(flat(encode_frame(Kind.HELLO, 0, welcome)))
            self._script(peer)


# ------------------------------------------------------------- slow and broken peers


def test_peer_that_does_not_read_is_closed_at_its_credit(
    unix: UnixCorridor, service: Memory
) -> None:
    bounds = Bounds(credit_bytes=1 << 20, patience_s=0.0)
    listener = unix.listen(service, bounds=bounds)
    other, slow = unix.connect(), unix.connect()

    def ask_and_never_read() -> None:
        for _ in range(100):  # the kernel holds a few MiB beside the credit
            slow.submit(Say(""), [bytes(256 << 10)])

    with pytest.raises(PeerLost):
        ask_and_never_read()
    service.wait_gone(1)
    assert listener.counters()["slow"] == 1
    assert other.call(Say("others"), timeout_s=PATIENCE_S).message == Said("others")


def test_queued_rest_of_a_reply_is_sent_when_the_peer_reads(
    unix: UnixCorridor, service: Memory
) -> None:
    unix.listen(service, bounds=Bounds(patience_s=0.0))
    connection = unix.connect()
    numbers = [connection.submit(Park(name)) for name in "ab"]
    sent = np.arange(1 << 19)  # 4 MiB
    for reply in service.wait_parked(*"ab"):
        values = sent.copy()
        reply(Said(""), [values])
        values[:] = 0  # the caller's again, sent or not
    for number in numbers:
        _, [received] = connection.wait_reply(number, PATIENCE_S)
        assert np.array_equal(received.view(np.int64), sent)


def test_bytes_that_are_no_frame_close_the_connection(
    unix: UnixCorridor, service: Memory
) -> None:
    listener = unix.listen(service)
    peer = bare_client(unix)
    with peer.socket:
        peer.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        [farewell] = peer.read_to_end()
    assert isinstance(farewell, Farewell)
    assert "expected a frame beginning with b'PACE'" in farewell.reason
    listener.close(PATIENCE_S)
    assert listener.counters()["malformed"] == 1


def test_request_before_the_hello_is_refused(unix: UnixCorridor, service: Memory) -> None:
    unix.listen(service)
    peer = bare_client(unix)
    with peer.socket:
        peer.socket.sendall(flat(encode_frame(Kind.REQUEST, 1, Say("early"))))
        [farewell] = peer.read_to_end()
    assert isinstance(farewell, Farewell)
    assert not service.received_messages


def test_request_may_come_byte_by_byte(unix: UnixCorridor, service: Memory) -> None:
    unix.listen(service)
    peer = bare_client(unix)
    hello = flat(encode_frame(Kind.HELLO, 0, HELLO, (), HANDSHAKE_LIMITS))
    request = flat(encode_frame(Kind.REQUEST, 5, Say("slowly"), [b"buffer"]))
    with peer.socket:
        for data in (hello, request):
            for position in range(len(data)):
                peer.socket.sendall(data[position : position + 1])
            frame = peer.read()
    assert (frame.request_id, frame.message) == (5, Said("slowly"))


def test_who_says_no_hello_is_parted_from(unix: UnixCorridor, service: Memory) -> None:
    listener = unix.listen(service, bounds=Bounds(handshake_s=0.04))
    peer = bare_client(unix)
    with peer.socket:
        assert peer.read_to_end() == [Farewell("no hello in time")]
    listener.close(PATIENCE_S)
    assert listener.counters()["mute"] == 1
    assert not service.gone


def test_crowd_is_turned_away(unix: UnixCorridor, service: Memory) -> None:
    unix.listen(service, bounds=Bounds(num_connections=1))
    first = unix.connect()
    with pytest.raises(HandshakeRefused, match="1 connections are enough"):
        unix.connect()
    assert first.call(Say("in"), timeout_s=PATIENCE_S).message == Said("in")


def test_peer_lost_inside_a_reply_is_lost(unix: UnixCorridor) -> None:
    def answer_half(peer: BareSocket) -> None:
        frame = peer.read()
        reply = flat(encode_frame(Kind.REPLY, frame.request_id, Said(""), [bytes(100)]))
        peer.socket.sendall(reply[:-50])

    with (
        BareListener(unix, answer_half),
        unix.connect() as connection,
        pytest.raises(PeerLost, match="the other end has closed the connection"),
    ):
        connection.call(Say(""), timeout_s=PATIENCE_S)


def test_landing_given_up_inside_a_reply_is_not_written_any_more(
    unix: UnixCorridor,
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
    with BareListener(unix, answer_in_halves), unix.connect() as connection:
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


def test_half_sent_request_closes_the_connection(unix: UnixCorridor) -> None:
    may_end = threading.Event()

    def read_nothing(_: BareSocket) -> None:
        assert may_end.wait(PATIENCE_S)

    with BareListener(unix, read_nothing), unix.connect() as connection:
        with pytest.raises(DeadlineExceeded, match="takes no request"):
            connection.call(Say(""), [bytes(8 << 20)], timeout_s=0.05)
        with pytest.raises(PeerLost, match="sent only in part"):
            connection.submit(Say(""))
        may_end.set()


def test_forked_process_may_not_use_the_connection(
    unix: UnixCorridor, service: Memory
) -> None:
    unix.listen(service)
    connection = unix.connect()
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


# ------------------------------------------------------------- the socket's place


def test_path_left_by_a_dead_process_is_taken(unix: UnixCorridor, service: Memory) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(unix.path))
    assert unix.path.is_socket()
    unix.listen(service)
    assert unix.connect().call(Say("x"), timeout_s=PATIENCE_S).message == Said("x")


def test_file_that_is_no_socket_stays(unix: UnixCorridor, service: Memory) -> None:
    unix.path.write_text("precious")
    with pytest.raises(UsageError, match="a file that is no socket lies there"):
        unix.listen(service)
    assert unix.path.read_text() == "precious"
    unix.path.unlink()


def test_folder_open_to_others_is_refused(unix: UnixCorridor, service: Memory) -> None:
    unix.folder.chmod(0o755)
    with pytest.raises(UsageError, match=r"mode 0700, got .* mode 0755"):
        unix.listen(service)


def test_missing_folder_is_refused(unix: UnixCorridor, service: Memory) -> None:
    unix.folder.rmdir()
    with pytest.raises(UsageError, match="its folder cannot be used"):
        unix.listen(service)
    unix.folder.mkdir()


def test_close_removes_only_its_own_file(unix: UnixCorridor, service: Memory) -> None:
    listener = unix.listen(service)
    unix.path.unlink()
    unix.path.write_text("a successor's")
    listener.close(PATIENCE_S)
    assert unix.path.exists()
    unix.path.unlink()


def test_close_leaves_no_thread_descriptor_or_file(
    unix: UnixCorridor, service: Memory
) -> None:
    before = set(os.listdir("/proc/self/fd"))
    listener: Listener = unix.listen(service)
    connection = unix.connect()
    connection.submit(Park("never"))
    service.wait_parked("never")
    listener.close(PATIENCE_S)
    connection.close()
    assert set(os.listdir("/proc/self/fd")) == before
    assert list(Path(unix.folder).iterdir()) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("paceline")]


def test_a_forked_process_does_not_keep_a_dead_parents_connections_alive(
    unix: UnixCorridor,
) -> None:
    gone = threading.Event()

    def script(bare: BareSocket) -> None:
        bare.socket.settimeout(None)  # a time-out would look like the end
        bare.read_to_end()
        gone.set()

    with BareListener(unix, script), unix.connect() as connection:
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
