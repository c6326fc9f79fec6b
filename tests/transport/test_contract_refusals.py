"""What every transport refuses, and what goes on afterwards."""

import numpy as np
import pytest

from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    FrameRefused,
    HandshakeRefused,
    PeerLost,
    UsageError,
)
from paceline.timing import Deadline
from paceline.transport.frames import Limits
from paceline.transport.handshake import Hello
from tests.transport.corridors import (
    CLOCK,
    PATIENCE_S,
    Corridor,
    Fail,
    Memory,
    Odd,
    Park,
    Said,
    Say,
    Unchecked,
    say,
)

# ------------------------------------------------------------- requests and replies


def test_nobody_listens(corridor: Corridor) -> None:
    with pytest.raises(PeerLost, match="nobody listens there"):
        corridor.connect()


def test_address_is_taken_by_one_listener_at_a_time(
    corridor: Corridor, service: Memory
) -> None:
    listener = corridor.listen(service)
    with pytest.raises(UsageError, match="somebody listens there already"):
        corridor.listen(service)
    listener.close(PATIENCE_S)
    corridor.listen(service)
    assert say(corridor.connect(), "second") == Said("second")


# ------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello(run="run-1", role="trainer-0", version=99), "version 1, .* has 99"),
        (Hello(run="run-2", role="trainer-0"), "run 'run-1', .* has 'run-2'"),
        (Hello(run="run-1", role="server-4"), "kind trainer, got 'server-4'"),
    ],
)
def test_wrong_hello_is_refused_with_both_values(
    corridor: Corridor, service: Memory, hello: Hello, reason: str
) -> None:
    listener = corridor.listen(service)
    with pytest.raises(HandshakeRefused, match=reason) as refused:
        corridor.connect(hello)
    is_foreign = hello.role == "trainer-0"  # of another run or version, not another role's
    assert isinstance(refused.value, ForeignPeer) == is_foreign
    assert say(corridor.connect(), "others") == Said("others")
    listener.close(PATIENCE_S)
    assert listener.counters()["refused"] == 1
    assert len(service.gone) == 1  # the others; who was refused never came in


def test_what_cannot_travel_is_refused_and_the_connection_goes_on(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    with pytest.raises(FrameRefused, match="Odd cannot travel"):
        connection.submit(Odd(object()))
    with pytest.raises(FrameRefused, match="only C-contiguous memory travels"):
        connection.submit(Say(""), [np.zeros((4, 4))[:, 1]])
    assert say(connection, "next") == Said("next")


def test_oversize_request_is_not_sent(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect(limits=Limits(frame_bytes=1000))
    with pytest.raises(FrameRefused, match=r"Say is not sent: .* link is 1000"):
        connection.submit(Say(""), [bytes(1000)])
    assert say(connection, "next") == Said("next")
    assert len(service.received_messages) == 1


def test_oversize_request_closes_the_connection(
    corridor: Corridor, service: Memory
) -> None:
    listener = corridor.listen(service, limits=Limits(frame_bytes=1000))
    connection = corridor.connect()
    with pytest.raises(PeerLost, match="link is 1000"):
        connection.call(Say(""), [bytes(1000)], timeout_s=PATIENCE_S)
    assert len(service.wait_gone(1)) == 1
    assert listener.counters()["malformed"] == 1


def test_oversize_reply_is_told_to_the_service(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service, limits=Limits(frame_bytes=1000))
    connection = corridor.connect()
    number = connection.submit(Park("a"))
    [reply] = service.wait_parked("a")
    with pytest.raises(FrameRefused, match="Said is not sent"):
        reply(Said(""), [bytes(1000)])
    reply(Said("too large"))
    assert connection.wait_reply(number, PATIENCE_S).message == Said("too large")


def test_unknown_request_closes_only_its_connection(
    corridor: Corridor, service: Memory
) -> None:
    listener = corridor.listen(service)
    other = corridor.connect()
    with pytest.raises(PeerLost, match="cannot be decoded: Invalid value 'Odd'"):
        corridor.connect().call(Odd(), timeout_s=PATIENCE_S)
    service.wait_gone(1)
    assert say(other, "others") == Said("others")
    assert listener.counters()["malformed"] == 1


def test_unknown_reply_closes_the_connection(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    number = connection.submit(Park("a"))
    [reply] = service.wait_parked("a")
    reply(Odd())
    with pytest.raises(FrameRefused, match="cannot be decoded"):
        connection.wait_reply(number, PATIENCE_S)
    with pytest.raises((PeerLost, FrameRefused)):
        connection.submit(Say("after"))


def test_request_with_a_value_out_of_range_closes_its_connection(
    corridor: Corridor, service: Memory
) -> None:
    listener = corridor.listen(service)
    with pytest.raises(PeerLost, match="cannot be decoded: number must be >= 0, got -1"):
        corridor.connect().call(Unchecked(-1), timeout_s=PATIENCE_S)
    service.wait_gone(1)
    assert listener.counters()["malformed"] == 1


def test_reply_with_a_value_out_of_range_closes_the_connection(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    number = connection.submit(Park("a"))
    [reply] = service.wait_parked("a")
    reply(Unchecked(-1))
    with pytest.raises(FrameRefused, match="number must be >= 0, got -1"):
        connection.wait_reply(number, PATIENCE_S)
    with pytest.raises((PeerLost, FrameRefused)):
        connection.submit(Say("after"))


def test_failing_service_closes_only_that_connection(
    corridor: Corridor, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    listener = corridor.listen(service)
    other = corridor.connect()
    with pytest.raises(PeerLost, match="the service failed: RuntimeError"):
        corridor.connect().call(Fail(), timeout_s=PATIENCE_S)
    service.wait_gone(1)
    assert say(other, "others") == Said("others")
    assert listener.counters()["failed"] == 1
    assert "asked to fail" in caplog.text


def test_call_divides_one_time_out(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    deadline = Deadline(CLOCK, 0.02)
    with pytest.raises(DeadlineExceeded, match="no reply to Park"):
        connection.call(Park("never"), timeout_s=0.02)
    assert deadline.is_over()
