"""Large requests go through memory that both ends share; nothing of it is left over."""

import fcntl
import gc
import os
import socket
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import DeadlineExceeded, FrameRefused
from paceline.transport.frames import (
    ALIGNMENT,
    DATA_LIMITS,
    InMailbox,
    Kind,
    Limits,
    Room,
    encode_frame,
    spread,
)
from paceline.transport.handshake import Farewell
from paceline.transport.mailbox import LEAST_BYTES, Incoming, MailboxOffer, Outgoing
from paceline.transport.service import places_of
from paceline.transport.streams.pieces import send_some
from tests.transport.bare import greeted_client
from tests.transport.corridors import (
    PATIENCE_S,
    Memory,
    Park,
    Said,
    Say,
    UnixCorridor,
)

LARGE = 3 * LEAST_BYTES


@pytest.fixture
def corridor() -> Iterator[UnixCorridor]:
    opened = UnixCorridor()
    yield opened
    opened.close()


def views_of(*values: bytes) -> list[memoryview]:
    return [memoryview(value) for value in values]


def mailboxes() -> int:
    """Descriptors of mailboxes that this process holds."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += "memfd:paceline" in os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return count


@given(st.lists(st.lists(st.binary(max_size=300), max_size=5), max_size=6))
def test_what_is_put_is_found(requests: list[list[bytes]]) -> None:
    outgoing = Outgoing(1 << 20)
    incoming = Incoming(outgoing.fd, MailboxOffer(outgoing.num_bytes))
    places = [outgoing.put(n, views_of(*values)) for n, values in enumerate(requests)]
    for shared, values in zip(places, requests, strict=True):
        assert shared is not None
        if not values:
            assert shared.place is None
            continue
        assert shared.place is not None
        assert shared.place % ALIGNMENT == 0
        found = incoming.find(shared.place, [len(value) for value in values], DATA_LIMITS)
        assert [array.tobytes() for array in found] == values
    outgoing.close()


def test_room_is_used_again_when_its_request_is_answered() -> None:
    outgoing = Outgoing(1)
    value = memoryview(bytes(outgoing.num_bytes // 2))
    assert outgoing.put(1, [value]) == InMailbox(0)
    assert outgoing.put(2, [value]) == InMailbox(len(value))
    assert outgoing.put(3, [value]) is None
    outgoing.free(2)
    assert outgoing.put(4, [], [len(value)]) == InMailbox(room=Room(len(value), len(value)))
    outgoing.free(1)
    outgoing.free(4)
    outgoing.free(99)
    assert outgoing.put(5, [value], [1]) == InMailbox(0, Room(len(value), ALIGNMENT))
    outgoing.close()
    assert outgoing.put(6, []) is None


def test_a_pen_is_written_by_its_own_requests_alone() -> None:
    outgoing = Outgoing(1)
    incoming = Incoming(outgoing.fd, MailboxOffer(outgoing.num_bytes))
    first = outgoing.put(1, views_of(b"lent"), pen=7)
    outgoing.free(1)
    assert first is not None
    assert first.place is not None
    others = [outgoing.put(2, views_of(b"next")), outgoing.put(3, views_of(b"x"), pen=8)]
    assert first.place not in {other.place for other in others if other is not None}
    [lent] = incoming.find(first.place, [4], DATA_LIMITS)
    assert lent.tobytes() == b"lent", "it is answered, and still there"
    assert outgoing.put(4, views_of(b"anew"), pen=7) == first
    larger = outgoing.put(5, views_of(bytes(1000)), [8], pen=7)
    assert larger is not None
    assert larger.place != first.place
    assert larger.room is not None
    assert outgoing.put(6, views_of(bytes(outgoing.num_bytes)), pen=9) is None
    outgoing.close()


@pytest.mark.parametrize(
    ("place", "sizes", "limit"),
    [(0, [1 << 26, 1], 1 << 30), (1 << 26, [1], 1 << 30), (0, [4096], 4095)],
)
def test_a_place_beyond_the_mailbox_or_the_limit_is_refused(
    place: int, sizes: list[int], limit: int
) -> None:
    outgoing = Outgoing(1)
    assert outgoing.num_bytes == 1 << 26
    incoming = Incoming(outgoing.fd, MailboxOffer(outgoing.num_bytes))
    with pytest.raises(FrameRefused, match=r"do not fit|over the limit"):
        incoming.find(place, sizes, Limits(frame_bytes=limit))
    outgoing.close()


def test_a_file_that_could_shrink_is_no_mailbox() -> None:
    fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    with pytest.raises(FrameRefused, match="expected a sealed file of 4096 bytes"):
        Incoming(fd, MailboxOffer(4096))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    with pytest.raises(FrameRefused, match="expected a sealed file"):
        Incoming(fd, MailboxOffer(8192))
    os.close(fd)
    with pytest.raises(FrameRefused, match="no mailbox"):
        Incoming(fd, MailboxOffer(4096))


def test_a_large_request_crosses_in_shared_memory_and_a_small_one_in_its_frame(
    corridor: UnixCorridor,
) -> None:
    service = Memory()
    corridor.listen(service)
    with corridor.connect() as connection:
        large = np.arange(LARGE, dtype=np.uint8)
        for _ in range(3):
            answer = connection.call(Say("a"), [large, b"b"], timeout_s=PATIENCE_S)
            assert answer.message == Said("a")
            assert [b.tobytes() for b in answer.buffers] == [large.tobytes(), b"b"]
        connection.call(Say("c"), [b"d"], timeout_s=PATIENCE_S)
    owners = [[b.flags.owndata for b in buffers] for buffers in service.received_buffers]
    assert owners == [[False, False]] * 3 + [[True]]
    starts = {buffers[0].ctypes.data for buffers in service.received_buffers[:3]}
    assert len(starts) == 1, "the same room, again and again"


def test_a_larger_request_gets_a_larger_mailbox_and_the_old_one_stays_readable(
    corridor: UnixCorridor,
) -> None:
    service = Memory()
    corridor.listen(service)
    with corridor.connect() as connection:
        first = connection.submit(Park("first"), [bytes([1]) * LARGE])
        service.wait_parked("first")
        huge = np.full(1 << 27, 2, np.uint8)
        answer = connection.call(Say("huge"), [huge], timeout_s=PATIENCE_S)
        assert (answer.buffers[0] == 2).all()
        assert (service.received_buffers[0][0] == 1).all()
        service.parked["first"](Said("late"))
        assert connection.wait_reply(first, PATIENCE_S).message == Said("late")


def test_a_mailbox_grows_until_all_pens_have_a_place(
    corridor: UnixCorridor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.transport.mailbox._ROUNDS_UP_TO", 4096)
    service = Memory()
    corridor.listen(service)
    with corridor.connect() as connection:
        for count in range(3 * 8):
            sent = [bytes([count]) * LARGE]
            request = connection.submit(Say("here"), sent, pen=count % 8)
            answer = connection.wait_reply(request, PATIENCE_S)
            assert (answer.buffers[0] == count).all()
        places = [buffers[0] for buffers in service.received_buffers[-8:]]
        assert not any(place.flags.owndata for place in places), "through the socket"
        assert [place[0] for place in places] == [*range(16, 24)], "written over"


def test_what_was_sent_stays_as_it_was_when_the_connection_is_lost(
    corridor: UnixCorridor,
) -> None:
    service = Memory()
    corridor.listen(service)
    for value in (1, 2):
        with corridor.connect() as connection:
            connection.submit(Park(f"{value}"), [bytes([value]) * LARGE])
            service.wait_parked(f"{value}")
    service.wait_gone(2)
    assert (service.received_buffers[0][0] == 1).all()
    assert (service.received_buffers[1][0] == 2).all()


def test_no_descriptor_is_left_when_connections_end() -> None:
    gc.collect()
    before = mailboxes()
    corridor, service = UnixCorridor(), Memory()
    corridor.listen(service)
    for _ in range(3):
        with corridor.connect() as connection:
            connection.call(Say("x"), [bytes(LARGE)], timeout_s=PATIENCE_S)
            assert mailboxes() > before
    service.wait_gone(3)
    corridor.close()
    service.received_buffers.clear()
    corridor.connections.clear()
    del connection
    gc.collect()
    assert mailboxes() == before


def test_without_shared_memory_everything_goes_through_the_socket(
    corridor: UnixCorridor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError("no such thing here")

    monkeypatch.setattr(os, "memfd_create", refuse)
    service = Memory()
    corridor.listen(service)
    with corridor.connect() as connection:
        value = bytes(range(256)) * (LARGE // 256)
        answer = connection.call(Say("x"), [value], timeout_s=PATIENCE_S)
        assert answer.buffers[0].tobytes() == value
    assert service.received_buffers[0][0].flags.owndata


@pytest.mark.parametrize("what", ["no descriptor", "no mailbox", "no offer", "a socket"])
def test_a_peer_that_offers_nonsense_is_turned_away(
    what: str, corridor: UnixCorridor
) -> None:
    service = Memory()
    corridor.listen(service)
    foreign = greeted_client(corridor)
    with foreign.socket, socket.socket(socket.AF_UNIX) as other:
        offer = Say("hello") if what == "no offer" else MailboxOffer(4096)
        frame = encode_frame(Kind.MAILBOX, 0, offer)
        if what == "no mailbox":
            frame = encode_frame(
                Kind.REQUEST, 1, Say(""), [b"x"], put=lambda _: InMailbox(0)
            )
        send_some(
            foreign.socket, deque(frame), [other.fileno()] if what == "a socket" else []
        )
        [farewell] = foreign.read_to_end()
        assert isinstance(farewell, Farewell)
        told = "cannot be decoded" if what == "no offer" else "mailbox"
        assert told in farewell.reason


def test_offsets_leave_room_for_every_buffer() -> None:
    assert spread([]) == ([], 0)
    assert spread([1, 0, 64, 65]) == ([0, 64, 64, 128], 256)


def test_a_large_reply_comes_in_the_room_that_was_kept_for_it(
    corridor: UnixCorridor,
) -> None:
    service = Memory()
    corridor.listen(service)
    with corridor.connect() as connection:
        landed = np.zeros(LARGE, np.uint8)
        asked = connection.submit(
            Park("x"), landing=lambda *_: [landed], reply_sizes=[LARGE]
        )
        [reply] = service.wait_parked("x")
        [place] = places_of(reply, [LARGE])
        assert not place.flags.owndata
        place[:] = 7
        reply(Said("here"), [place])
        answer = connection.wait_reply(asked, PATIENCE_S)
        assert answer.message == Said("here")
        assert (landed == 7).all()
        assert places_of(reply, [2 * LARGE])[0].flags.owndata, "more than was kept"


@pytest.mark.parametrize("num_bytes", [0, 5, LARGE - 1, LARGE, 4 * LARGE])
def test_a_reply_of_another_size_than_foreseen_comes_as_well(
    num_bytes: int, corridor: UnixCorridor
) -> None:
    service = Memory()
    corridor.listen(service)
    value = np.arange(num_bytes, dtype=np.uint64).view(np.uint8)[:num_bytes].copy()
    with corridor.connect() as connection:
        asked = connection.submit(Park("x"), reply_sizes=[LARGE])
        [reply] = service.wait_parked("x")
        reply(Said("x"), [value] if num_bytes else [])
        answer = connection.wait_reply(asked, PATIENCE_S)
        found = [buffer.tobytes() for buffer in answer.buffers]
        assert found == ([value.tobytes()] if num_bytes else [])


@pytest.mark.parametrize("room", [(), (0, 0), (LARGE, 0)], ids=str)
@pytest.mark.parametrize("is_offered", [True, False], ids=["mailbox", "none"])
def test_a_reply_of_empty_buffers_comes_with_room_and_without(
    is_offered: bool, room: tuple[int, ...], corridor: UnixCorridor
) -> None:
    corridor.listen(Memory())
    with corridor.connect() as connection:
        if is_offered:
            connection.call(Say("large"), [bytes(LARGE)], timeout_s=PATIENCE_S)
        asked = connection.submit(Say("empty"), [b"", b""], reply_sizes=room)
        answer = connection.wait_reply(asked, PATIENCE_S)
        assert [buffer.nbytes for buffer in answer.buffers] == [0, 0]


def test_a_late_reply_writes_no_byte_of_what_the_client_uses(
    corridor: UnixCorridor,
) -> None:
    service = Memory()
    corridor.listen(service)
    landed = np.zeros(LARGE, np.uint8)
    with corridor.connect() as connection:
        asked = connection.submit(
            Park("late"), landing=lambda *_: [landed], reply_sizes=[LARGE]
        )
        [reply] = service.wait_parked("late")
        with pytest.raises(DeadlineExceeded):
            connection.wait_reply(asked, 0.01)
    service.wait_gone(1)
    [place] = places_of(reply, [LARGE])
    place[:] = 9
    reply(Said("late"), [place])
    assert not landed.any()


def test_a_reply_finds_the_mailbox_that_its_request_was_put_into(
    corridor: UnixCorridor,
) -> None:
    service = Memory()
    corridor.listen(service)
    with corridor.connect() as connection:
        early = connection.submit(Park("early"), [bytes(LARGE)], reply_sizes=[LARGE])
        [reply] = service.wait_parked("early")
        huge = np.full(1 << 27, 2, np.uint8)
        assert connection.call(Say("huge"), [huge], timeout_s=PATIENCE_S)
        reply(Said("early"), [np.full(LARGE, 5, np.uint8)])
        assert (connection.wait_reply(early, PATIENCE_S).buffers[0] == 5).all()
