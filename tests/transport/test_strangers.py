"""Whoever else connects to a running service: refused, logged, and no harm to members."""

import errno
import logging
import socket
from collections.abc import Callable, Iterator

import msgspec
import pytest

from paceline.transport.frames import PREAMBLE_BYTES, Kind, encode_frame
from paceline.transport.handshake import Farewell, Hello, HelloCheck, Proof
from paceline.transport.listener import Bounds
from paceline.transport.streams.listener import StreamListener
from paceline.transport.streams.sockets import TcpDoor
from tests.transport.bare import BareSocket, bare_client, flat, hello_bytes, introduction
from tests.transport.corridors import (
    CLOCK,
    PATIENCE_S,
    Corridor,
    Memory,
    Said,
    Say,
    TcpCorridor,
    UnixCorridor,
    say,
)


@pytest.fixture(params=[UnixCorridor, TcpCorridor], ids=["unix", "tcp"])
def stream(request: pytest.FixtureRequest) -> Iterator[Corridor]:
    opened: Corridor = request.param()
    yield opened
    opened.close()


def say_garbage(peer: BareSocket, corridor: Corridor) -> None:
    del corridor
    peer.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)))


def say_half_a_frame(peer: BareSocket, corridor: Corridor) -> None:
    peer.send(hello_bytes(introduction(peer, corridor).hello)[:-3])


def say_a_third_of_a_preamble(peer: BareSocket, corridor: Corridor) -> None:
    peer.send(hello_bytes(introduction(peer, corridor).hello)[: PREAMBLE_BYTES // 3])


def say_nothing(peer: BareSocket, corridor: Corridor) -> None:
    del peer, corridor


def speak_another_version(peer: BareSocket, corridor: Corridor) -> None:
    data = bytearray(hello_bytes(introduction(peer, corridor).hello))
    data[4] = 2
    peer.send(bytes(data))


def announce_too_much(peer: BareSocket, corridor: Corridor) -> None:
    del corridor
    hello = Hello(run="run-1", role="trainer-0")
    peer.send(flat(encode_frame(Kind.HELLO, 0, hello, [bytes(1 << 20)]))[:200])


def say_a_name_without_end(peer: BareSocket, corridor: Corridor) -> None:
    del corridor
    peer.send(hello_bytes(Hello(run="run-1", role="x" * 5000)))


def ask_at_once(peer: BareSocket, corridor: Corridor) -> None:
    del corridor
    peer.send(flat(encode_frame(Kind.REQUEST, 1, Say("early"))))


def forge_a_line(peer: BareSocket, corridor: Corridor) -> None:
    del corridor
    peer.send(hello_bytes(Proof(b"")) + b"\nERROR all is lost\n")


FOREIGN: dict[str, tuple[Callable[[BareSocket, Corridor], None], str, str]] = {
    # {who: (what it does, how it is counted, what it is told)}
    "garbage": (say_garbage, "malformed", "expected a frame beginning with b'PACE'"),
    "half a frame": (say_half_a_frame, "mute", "no hello in time"),
    "a third of a preamble": (say_a_third_of_a_preamble, "mute", "no hello in time"),
    "silence": (say_nothing, "mute", "no hello in time"),
    "another version": (speak_another_version, "malformed", "version 1, got version 2"),
    "a huge frame": (announce_too_much, "malformed", "limit of the link is 16384"),
    "a huge name": (say_a_name_without_end, "malformed", "length <= 256"),
    "a request": (ask_at_once, "malformed", "Invalid value 'Say'"),
    "a proof of nothing": (forge_a_line, "malformed", "expected a hello, got Proof"),
}


@pytest.mark.parametrize("who", FOREIGN)
def test_foreign_process_is_refused_logged_and_does_no_harm(
    who: str, stream: Corridor, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    act, loss, reason = FOREIGN[who]
    handshake_s = 0.04 if loss == "mute" else PATIENCE_S
    listener = stream.listen(service, bounds=Bounds(handshake_s=handshake_s))
    foreign = bare_client(stream)
    with foreign.socket:
        act(foreign, stream)
        [farewell] = foreign.read_to_end()
    assert isinstance(farewell, Farewell)
    assert reason in farewell.reason
    listener.close(PATIENCE_S)
    assert listener.counters()[loss] == 1
    assert not service.received_messages
    assert not service.gone
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert reason in line
    assert line.isprintable()


def test_members_are_served_while_all_kinds_of_strangers_stand_at_the_door(
    stream: Corridor, service: Memory
) -> None:
    stream.listen(service)
    member = stream.connect()
    strangers = [bare_client(stream) for _ in FOREIGN]
    for stranger, (act, _, _) in zip(strangers, FOREIGN.values(), strict=True):
        act(stranger, stream)
    assert say(member, "old") == Said("old")
    assert say(stream.connect(), "new") == Said("new")
    for stranger in strangers:
        stranger.socket.close()


def test_unproved_stranger_is_not_told_the_run(tcp: TcpCorridor, service: Memory) -> None:
    tcp.listen(service)
    peer = bare_client(tcp)
    with peer.socket:
        hello = introduction(peer, tcp, Hello(run="?", role="trainer-0")).hello
        peer.send(hello_bytes(hello) + hello_bytes(Proof(bytes(32))))
        said = msgspec.msgpack.encode(peer.read_to_end())
    assert b"does not hold" in said
    assert b"run-1" not in said


def test_recorded_handshake_is_refused(tcp: TcpCorridor, service: Memory) -> None:
    listener = tcp.listen(service)
    first = bare_client(tcp)
    mine = introduction(first, tcp)
    with first.socket:
        first.send(hello_bytes(mine.hello))
        proof = mine.answer(first.read().message)  # type: ignore[arg-type]
        first.send(hello_bytes(proof))
        first.read()
        second = bare_client(tcp)
        with second.socket:
            second.send(hello_bytes(mine.hello) + hello_bytes(proof))
            assert isinstance(second.read_to_end()[-1], Farewell)
    listener.close(PATIENCE_S)
    assert listener.counters()["refused"] == 1
    assert len(service.gone) == 1  # the first


# ------------------------------------------------------------- crowds


def test_silent_crowd_keeps_no_member_out(stream: Corridor, service: Memory) -> None:
    bounds = Bounds(num_strangers=4, handshake_s=PATIENCE_S)
    listener = stream.listen(service, bounds=bounds)
    member = stream.connect()
    crowd = []
    for number in range(40):
        crowd.append(bare_client(stream))
        if number % 10 == 0:
            assert say(stream.connect(), str(number)) == Said(str(number))
    assert say(member, "still here") == Said("still here")
    for stranger in crowd[:30]:  # pushed out, without a word
        assert stranger.read_to_end() == []
        stranger.socket.close()
    for stranger in crowd[30:]:
        stranger.socket.close()
    listener.close(PATIENCE_S)
    assert listener.counters()["displaced"] >= 30


def test_crowd_of_members_is_turned_away_by_name(stream: Corridor, service: Memory) -> None:
    listener = stream.listen(service, bounds=Bounds(num_connections=2))
    members = [stream.connect(), stream.connect()]
    peer = bare_client(stream)
    with peer.socket:
        mine = introduction(peer, stream)
        peer.send(hello_bytes(mine.hello))
        answer = peer.read().message
        if stream.security.secret is not None:
            peer.send(hello_bytes(mine.answer(answer)))  # type: ignore[arg-type]
            answer = peer.read().message
    assert answer == Farewell("2 connections are enough")
    members[0].close()
    service.wait_gone(1)
    assert say(stream.connect(), "in its place") == Said("in its place")
    listener.close(PATIENCE_S)
    assert listener.counters()["crowded"] == 1


class FullTable:
    """A listening socket of a process that is out of descriptors when the test says so."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno, self.shutdown, self.close = sock.fileno, sock.shutdown, sock.close
        self.num_refusals = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.num_refusals:
            self.num_refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._sock.accept()


def test_listener_out_of_descriptors_pushes_out_a_stranger(
    tcp: TcpCorridor, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    door = TcpDoor(tcp.listening, tcp.security)
    table = FullTable(door.socket)
    door.socket = table  # type: ignore[assignment]
    listener = StreamListener(
        door,
        service,
        hello_check=HelloCheck("run-1", "server-0", {"trainer"}),
        request_type=lambda _: Say,
        clock=CLOCK,
        bounds=Bounds(handshake_s=8 * PATIENCE_S),  # the next look is far away
    )
    tcp.listeners.append(listener)
    stranger = bare_client(tcp)
    assert say(tcp.connect(), "before") == Said("before")
    table.num_refusals = 1
    assert say(tcp.connect(), "after") == Said("after")
    assert table.num_refusals == 0
    assert "cannot accept anybody: [Errno 24]" in caplog.text
    with stranger.socket:
        assert stranger.read_to_end() == []
