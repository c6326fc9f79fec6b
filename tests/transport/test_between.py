"""What somebody between two ends can do: pass on, and nothing else."""

import ipaddress
import itertools
import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from paceline.errors import HandshakeRefused, PeerLost, TransportError
from paceline.transport import opening
from paceline.transport.connection import Connection
from paceline.transport.frames import DATA_LIMITS
from paceline.transport.handshake import Hello, Way
from paceline.transport.opening import connect
from tests.transport.bare import BareSocket, bare_client
from tests.transport.corridors import (
    CLOCK,
    HELLO,
    PATIENCE_S,
    Memory,
    Said,
    Say,
    TcpCorridor,
    say,
)
from tests.transport.relays import Relay

NUM_FLIPS = 35


def connect_through(relay: Relay, corridor: TcpCorridor) -> Connection:
    connection = connect(
        str(relay.where), HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, corridor.security
    )
    corridor.connections.append(connection)
    return connection


# ------------------------------------------------------------- who ends TLS in between


def test_who_ends_tls_in_between_is_refused(tls: TcpCorridor, service: Memory) -> None:
    listener = tls.listen(service)
    with Relay(tls.where, ends_tls=True) as relay:
        with pytest.raises(HandshakeRefused, match="nobody in between who ends TLS"):
            connect_through(relay, tls)
        assert relay.said["up"].startswith(b"PACE")  # it did end TLS, and passed it on
        assert b"trainer-0" in relay.said["up"]
    tls.close()
    assert listener.counters()["refused"] == 1
    assert not service.received_messages


def test_who_passes_bytes_on_is_no_obstacle_under_tls(
    tls: TcpCorridor, service: Memory
) -> None:
    """A forwarded port, a translated address, a service's name."""
    tls.listen(service)
    with Relay(tls.where) as relay:
        connection = connect_through(relay, tls)
        numbers = np.arange(100_000.0)
        answer = connection.call(Say("far away"), [numbers], timeout_s=PATIENCE_S)
        assert answer.buffers[0].tobytes() == numbers.tobytes()
        seen = bytes(relay.said["up"] + relay.said["down"])
        tls.close()
    assert len(seen) > 2 * numbers.nbytes
    for secret in (b"trainer-0", b"run-1", b"far away", numbers.tobytes()[8000:8064]):
        assert secret not in seen


def test_who_passes_bytes_on_is_refused_without_tls(service: Memory) -> None:
    for way in (None, "plain"):
        corridor = TcpCorridor(way=way)
        corridor.listen(service)
        with (
            Relay(corridor.where) as relay,
            pytest.raises(HandshakeRefused, match="no address translation in between"),
        ):
            connect_through(relay, corridor)
        corridor.close()


# ------------------------------------------------------------- what was recorded


def test_a_recorded_stream_is_refused_under_tls(tls: TcpCorridor, service: Memory) -> None:
    listener = tls.listen(service)
    with Relay(tls.where) as relay:
        assert say(connect_through(relay, tls), "once") == Said("once")
        recorded = bytes(relay.said["up"])
        tls.connections.pop().close()
    again = bare_client(tls)
    with again.socket:
        again.send(recorded)
        read_to_end(again)
    tls.close()
    assert [message for _, message in service.received_messages] == [Say("once")]
    assert len(service.gone) == 1
    assert listener.counters()["accepted"] == 2


def test_a_recorded_proof_is_refused_in_another_tls_connection(
    tls: TcpCorridor, service: Memory
) -> None:
    listener = tls.listen(service)
    proofs: list[bytes] = []

    def keep_proof(way: str, position: int, data: bytes) -> bytes:
        if way == "up" and position:
            proofs.append(data)
            if len(proofs) > 1:
                return proofs[0]
        return data

    with Relay(tls.where, keep_proof, ends_tls=True) as relay:
        for _ in range(2):
            with pytest.raises(HandshakeRefused, match="does not hold"):
                connect_through(relay, tls)
    assert len(proofs) == 2
    tls.close()
    assert listener.counters()["refused"] == 2


def read_to_end(peer: BareSocket) -> None:
    try:
        while peer.socket.recv(1 << 16):
            pass
    except ConnectionError:
        pass


# ------------------------------------------------------------- bits that flip


class Flip:
    """Turns one bit of a stream over."""

    def __init__(self, way: str, position: int, bit: int) -> None:
        self.way, self.position, self.bit = way, position, bit
        self.is_done = False

    def __call__(self, way: str, position: int, data: bytes) -> bytes:
        at = self.position - position
        if way != self.way or not 0 <= at < len(data):
            return data
        self.is_done = True
        return data[:at] + bytes([data[at] ^ 1 << self.bit]) + data[at + 1 :]


ARRAYS = [np.random.default_rng(n).bytes(n) for n in (1, 700, 30_000)]


def talk(connection: Connection) -> None:
    """Requests and replies with buffers; whatever comes is what was sent."""
    for number in range(3):
        answer = connection.call(Say(str(number)), ARRAYS, timeout_s=PATIENCE_S)
        assert answer.message == Said(str(number))
        assert [buffer.tobytes() for buffer in answer.buffers] == ARRAYS


def check_received(service: Memory) -> None:
    for number, (_, message) in enumerate(service.received_messages):
        assert message == Say(str(number))
    for buffers in service.received_buffers:
        assert [buffer.tobytes() for buffer in buffers] == ARRAYS


def same_place(corridor: TcpCorridor, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the relay were a router: addresses are the same on both sides of it."""
    host, port = corridor.where
    place = ipaddress.ip_address(host).packed + port.to_bytes(2, "big")
    monkeypatch.setattr(opening, "place_reached", lambda _: place)


def lengths(way: Way, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """{way: (bytes of the handshake, bytes in all)} of a talk that nobody disturbs."""
    corridor, service = TcpCorridor(way=way), Memory()
    if way == "plain":
        same_place(corridor, monkeypatch)
    corridor.listen(service)
    with Relay(corridor.where) as relay:
        connection = connect_through(relay, corridor)
        before = {way: len(said) for way, said in relay.said.items()}
        talk(connection)
        found = {way: (before[way], len(said)) for way, said in relay.said.items()}
        corridor.close()
    assert len(service.received_messages) == 3
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "tls"])
def test_every_flipped_bit_ends_the_connection_and_no_wrong_value_comes(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = lengths(way, monkeypatch)
    rng = random.Random(35)
    for _ in range(NUM_FLIPS):
        corridor, service = TcpCorridor(way=way), Memory()
        if way == "plain":
            same_place(corridor, monkeypatch)
        listener = corridor.listen(service)
        direction = rng.choice(["up", "down"])
        flip = Flip(direction, rng.randrange(*sizes[direction]), rng.randrange(8))
        with Relay(corridor.where, flip) as relay:
            connection = connect_through(relay, corridor)
            with pytest.raises(PeerLost):  # a loss like others: asked anew
                talk(connection)
            corridor.close()
        assert flip.is_done
        check_received(service)
        counts = listener.counters()
        assert counts.get("gone", 0) + counts.get("malformed", 0) == 1


@pytest.mark.slow
def test_a_bit_that_flips_in_a_plain_handshake_changes_nothing_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What matters in it is proved; what does not may go unnoticed."""
    sizes = lengths("plain", monkeypatch)
    rng = random.Random(36)
    num_refused = 0
    for direction, _ in itertools.product(sizes, range(NUM_FLIPS)):
        corridor, service = TcpCorridor(way="plain"), Memory()
        same_place(corridor, monkeypatch)
        corridor.listen(service)
        flip = Flip(direction, rng.randrange(sizes[direction][0]), rng.randrange(8))
        with Relay(corridor.where, flip) as relay:
            try:
                talk(connect_through(relay, corridor))
            except TransportError:
                num_refused += 1
            corridor.close()
        check_received(service)
        for peer in service.gone:
            assert Hello(run=peer.run, role=peer.role, incarnation=7) == HELLO
            assert peer.incarnation == 7
    assert num_refused > NUM_FLIPS


def test_a_damaged_value_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    corridor = TcpCorridor(way="plain")
    same_place(corridor, monkeypatch)
    corridor.listen(service)
    words = "checksum of a frame's payload does not match: damaged on the way"

    def damage(way: str, position: int, data: bytes) -> bytes:
        del position
        return data.replace(marks[way], b"wrong")

    marks = {"up": b"going", "down": b"never"}
    with Relay(corridor.where, damage) as relay:
        connection = connect_through(relay, corridor)
        with pytest.raises(PeerLost, match=words):
            connection.call(Say("x"), [b"going up"], timeout_s=PATIENCE_S)
        marks.update(up=b"never", down=b"going")
        connection = connect_through(relay, corridor)
        place = np.zeros(10, np.uint8)
        with pytest.raises(PeerLost, match=words):
            connection.call(
                Say("x"), [b"going down"], timeout_s=PATIENCE_S, landing=lambda *_: [place]
            )
        # It had landed by then: whoever named the place gets an error, and no answer.
        assert place.tobytes() == b"wrong down"
        corridor.close()
    assert [m for _, m in service.received_messages] == [Say("x")]  # the second alone
    assert words in caplog.text


def test_a_landing_is_not_asked_about_a_damaged_header(
    monkeypatch: pytest.MonkeyPatch, service: Memory
) -> None:
    corridor = TcpCorridor(way="plain")
    same_place(corridor, monkeypatch)
    corridor.listen(service)
    asked: list[msgspec.Struct] = []

    def land(message: msgspec.Struct, sizes: Sequence[int]) -> list[bytearray]:
        del sizes
        asked.append(message)
        return [bytearray(5)]

    def damage(way: str, position: int, data: bytes) -> bytes:
        del position
        return data.replace(b"header", b"hEader") if way == "down" else data

    with Relay(corridor.where, damage) as relay:
        connection = connect_through(relay, corridor)
        with pytest.raises(PeerLost, match="a frame's header does not match"):
            connection.call(Say("header"), [bytes(5)], timeout_s=PATIENCE_S, landing=land)
        corridor.close()
    assert not asked
