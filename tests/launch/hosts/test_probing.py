"""One machine tries another, and says what of it passes."""

from collections.abc import Iterator

import pytest

from paceline.errors import DeadlineExceeded, PeerLost
from paceline.ids import HOST
from paceline.launch.hosts.probing import BULK_BYTES, Echoes, probe
from paceline.launch.job import LOOPBACK, Wires
from paceline.messages.hosts import Echo, Echoed
from paceline.timing import ManualClock, SystemClock
from paceline.transport.connection import Answer, Connection
from paceline.transport.handshake import Secret, Welcome
from paceline.transport.listener import Listener

CLOCK = SystemClock()


class Path(Connection):
    """A connection on which what is larger than ``takes`` bytes is lost."""

    def __init__(self, clock: ManualClock, takes: int) -> None:
        super().__init__("tcp:10.0.0.2:5", Welcome(run="", role=HOST), clock)
        self.clock, self.takes = clock, takes
        self.sizes: list[int] = []

    def submit(self, message: object, *_: object, **__: object) -> int:
        assert isinstance(message, Echo)
        self.sizes.append(len(message.load))
        return len(message.load)

    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        if request_id > self.takes:
            self.clock.advance(timeout_s)
            raise DeadlineExceeded("no reply")
        self.clock.advance(0.001 + request_id / 1e8)
        return Answer(Echoed(num_bytes=request_id), [])

    def close(self) -> None:
        """Nothing to do."""


@pytest.fixture
def wires() -> Wires:
    return Wires("token", HOST, CLOCK, secret=Secret.fresh())


@pytest.fixture
def listener(wires: Wires) -> Iterator[Listener]:
    with wires.listen_as_host(f"tcp:{LOOPBACK}:0", Echoes()) as made:
        yield made


def test_a_way_that_is_well_has_a_round_trip_and_a_rate(
    wires: Wires, listener: Listener
) -> None:
    result = probe(lambda: wires.to_other_host(listener.address, "token"), CLOCK)

    assert (result.error, result.large_error) == ("", "")
    assert 0 < result.round_trip_s < 1.0
    assert result.bytes_per_s > 1e5


def test_whoever_has_another_secret_is_told_nothing(
    wires: Wires, listener: Listener
) -> None:
    foreign = wires._replace(secret=Secret.fresh())

    assert (
        "secret"
        in probe(lambda: foreign.to_other_host(listener.address, "token"), CLOCK).error
    )


def test_another_machine_at_the_address_is_not_the_one_that_was_meant(
    wires: Wires, listener: Listener
) -> None:
    result = probe(lambda: wires.to_other_host(listener.address, "other"), CLOCK)

    assert result.error.startswith("who answers there is another one: tcp:127.0.0.1:")


def test_who_is_not_reached_is_said_with_the_reason() -> None:
    def connect() -> Connection:
        raise PeerLost("nobody listens there")

    assert probe(connect, ManualClock()).error == "nobody listens there"


@pytest.mark.parametrize("takes", [1300, BULK_BYTES - 1])
def test_where_only_small_frames_pass_the_round_trip_is_known(takes: int) -> None:
    clock = ManualClock()

    result = probe(lambda: Path(clock, takes), clock)

    assert (result.error, result.large_error) == ("", "no reply")
    assert result.round_trip_s == pytest.approx(0.001)
    assert clock.now_s() < 30.0


def test_where_nothing_passes_that_is_all_that_is_known() -> None:
    clock = ManualClock()

    assert probe(lambda: Path(clock, -1), clock).error == "no reply"


def test_the_rate_is_that_of_the_bytes_without_the_round_trip() -> None:
    clock = ManualClock()

    result = probe(lambda: Path(clock, 1 << 30), clock)

    assert result.bytes_per_s == pytest.approx(1e8)
