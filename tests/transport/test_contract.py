"""What every transport promises, said once and tried on each."""

import threading
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np
import pytest

from paceline.errors import (
    DeadlineExceeded,
    PeerLost,
    UsageError,
)
from paceline.transport.connection import Answer
from paceline.transport.frames import Buffer
from tests.transport.corridors import (
    PATIENCE_S,
    Corridor,
    Memory,
    Park,
    Said,
    Say,
    caught,
    run_threads,
    say,
)

# ------------------------------------------------------------- requests and replies


def test_request_is_answered_by_its_reply(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    assert say(corridor.connect(), "hello") == Said("hello")


def test_service_learns_who_asks(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    first, second = corridor.connect(), corridor.connect()
    say(first, "a")
    say(second, "b")
    [(one, _), (two, _)] = service.received_messages
    assert (one.role, one.run, one.incarnation) == ("trainer-0", "run-1", 7)
    assert one.connection != two.connection
    assert first.welcome.role == "server-0"


def test_requests_of_a_connection_reach_the_service_in_order(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    sent = [Say(str(number)) for number in range(50)]
    for request_id in [connection.submit(message) for message in sent]:
        connection.wait_reply(request_id, PATIENCE_S)
    assert [message for _, message in service.received_messages] == sent


def test_parked_replies_find_their_requests_in_any_order(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    numbers = {name: connection.submit(Park(name)) for name in "abc"}
    for name, reply in zip("cab", service.wait_parked(*"cab"), strict=True):
        reply(Said(name))
    for name in "bca":
        assert connection.wait_reply(numbers[name], PATIENCE_S).message == Said(name)


def test_reply_wakes_a_thread_that_waits(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    answers: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: answers.append(connection.call(Park("a"), timeout_s=PATIENCE_S))
    )
    waiting.start()
    [reply] = service.wait_parked("a")
    reply(Said("awake"))
    waiting.join(PATIENCE_S)
    assert [answer.message for answer in answers] == [Said("awake")]


def test_many_threads_share_one_connection(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    wrong: list[object] = []

    def ask(name: str) -> None:
        for number in range(20):
            text = f"{name}-{number}"
            place = np.zeros(512, np.int64)
            answer = connection.call(
                Say(text),
                [np.full(512, number)],
                timeout_s=PATIENCE_S,
                landing=lambda *_, place=place: [place],
            )
            if answer.message != Said(text) or not (place == number).all():
                wrong.append((answer.message, place))

    run_threads(*(threading.Thread(target=ask, args=(f"t{n}",)) for n in range(6)))
    assert not wrong
    assert len(service.received_messages) == 120


def test_two_hundred_connections_are_served(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connections = [corridor.connect() for _ in range(200)]
    numbers = [
        connection.submit(Say(str(index))) for index, connection in enumerate(connections)
    ]
    for index, connection in enumerate(connections):
        answer = connection.wait_reply(numbers[index], PATIENCE_S)
        assert answer.message == Said(str(index))


def test_request_is_answered_only_once(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    connection.submit(Park("a"))
    [reply] = service.wait_parked("a")
    reply(Said("first"))
    with pytest.raises(AssertionError, match="answered twice"):
        reply(Said("second"))


def test_reply_is_taken_only_once(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    number = connection.submit(Say("a"))
    connection.wait_reply(number, PATIENCE_S)
    with pytest.raises(UsageError, match=f"request {number} is not open"):
        connection.wait_reply(number, PATIENCE_S)


# ------------------------------------------------------------- buffers


def test_buffers_arrive_unchanged_and_belong_to_the_receiver(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    sent: list[Buffer] = [values, b"raw", np.empty((0, 4), np.int64), np.array([True])]
    buffers = corridor.connect().call(Say(""), sent, timeout_s=PATIENCE_S).buffers
    values[:] = -1
    [kept] = service.received_buffers
    for found in (kept, buffers):
        assert found[0].view(np.float32).tolist() == [0, 1, 2, 3, 4, 5]
        assert [bytes(buffer) for buffer in found[1:]] == [b"raw", b"", b"\x01"]
        found[0][:] = 0  # writable


def test_large_buffers_arrive_whole(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    sent = np.arange(3 << 18, dtype=np.int64)  # 6 MiB: more than the kernel holds
    place = np.zeros_like(sent)
    corridor.connect().call(
        Say(""), [sent], timeout_s=PATIENCE_S, landing=lambda *_: [place]
    )
    assert np.array_equal(sent, place)


def test_more_buffers_than_one_system_call_takes_arrive_whole(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    sent = [np.array([number]) for number in range(2500)]
    buffers = corridor.connect().call(Say(""), sent, timeout_s=PATIENCE_S).buffers
    assert [int(buffer.view(np.int64)[0]) for buffer in buffers] == list(range(2500))


def test_reply_lands_in_place(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    parameters = np.zeros(8, np.float32)
    asked: list[tuple[msgspec.Struct, tuple[int, ...]]] = []

    def landing(message: msgspec.Struct, sizes: Sequence[int]) -> list[np.ndarray]:
        asked.append((message, tuple(sizes)))
        return [parameters[4:], parameters[:4]]

    sent = [np.full(4, 2, np.float32), np.full(4, 1, np.float32)]
    answer = corridor.connect().call(Say("x"), sent, timeout_s=PATIENCE_S, landing=landing)
    assert parameters.tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert all(np.shares_memory(buffer, parameters) for buffer in answer.buffers)
    assert asked == [(Said("x"), (16, 16))]


def test_landing_is_not_asked_for_a_reply_without_buffers(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)

    def landing(message: msgspec.Struct, sizes: Sequence[int]) -> list[np.ndarray]:
        raise AssertionError((message, sizes))

    answer = corridor.connect().call(Say("x"), timeout_s=PATIENCE_S, landing=landing)
    assert (answer.message, answer.buffers) == (Said("x"), [])


@pytest.mark.parametrize("place", [bytearray(3), memoryview(b"four")])
def test_wrong_landing_is_told_to_the_one_who_waits(
    corridor: Corridor, service: Memory, place: bytearray | memoryview
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    with pytest.raises(UsageError, match="offers"):
        connection.call(
            Say(""), [b"1234"], timeout_s=PATIENCE_S, landing=lambda *_: [place]
        )
    assert say(connection, "next") == Said("next")


# ------------------------------------------------------------- time-outs and endings


def test_late_reply_is_dropped_and_does_not_land(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    place = bytearray(b"mine")
    number = connection.submit(Park("late"), landing=lambda *_: [place])
    with pytest.raises(DeadlineExceeded, match="no reply to Park"):
        connection.wait_reply(number, 0.01)
    [reply] = service.wait_parked("late")
    reply(Said("late"), [b"late"])
    assert say(connection, "next") == Said("next")
    assert place == b"mine"


def test_lost_peer_wakes_everyone_who_waits(corridor: Corridor, service: Memory) -> None:
    listener = corridor.listen(service)
    connection = corridor.connect()
    errors: list[Exception] = []
    threads = [
        threading.Thread(
            target=caught(
                partial(connection.call, Park(name), timeout_s=PATIENCE_S), errors
            )
        )
        for name in "abc"
    ]
    for thread in threads:
        thread.start()
    service.wait_parked(*"abc")
    listener.close(PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [type(error) for error in errors] == [PeerLost] * 3


def test_own_close_wakes_everyone_who_waits(corridor: Corridor, service: Memory) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    errors: list[Exception] = []
    waiting = threading.Thread(
        target=caught(lambda: connection.call(Park("a"), timeout_s=PATIENCE_S), errors)
    )
    waiting.start()
    service.wait_parked("a")
    connection.close()
    waiting.join(PATIENCE_S)
    [error] = errors
    assert isinstance(error, PeerLost)
    assert "closed on this side" in str(error)
    with pytest.raises(PeerLost, match="closed on this side"):
        connection.submit(Say("after"))


def test_service_is_told_once_of_each_end(corridor: Corridor, service: Memory) -> None:
    listener = corridor.listen(service)
    first, second = corridor.connect(), corridor.connect()
    say(first, "1")
    say(second, "2")
    first.close()
    service.wait_gone(1)
    first.close()
    listener.close(PATIENCE_S)
    second.close()
    gone_first, gone_second = [peer.connection for peer in service.gone]
    assert gone_second == gone_first + 1


def test_reply_to_a_connection_that_has_gone_does_nothing(
    corridor: Corridor, service: Memory
) -> None:
    corridor.listen(service)
    connection = corridor.connect()
    connection.submit(Park("a"))
    [reply] = service.wait_parked("a")
    connection.close()
    service.wait_gone(1)
    reply(Said("to nobody"), [b"nothing"])
    assert say(corridor.connect(), "others") == Said("others")
