"""What a connection has shared goes with it, at once: nobody waits for a collection."""

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import DeadlineExceeded
from paceline.transport.frames import InMailbox
from paceline.transport.mailbox import LEAST_BYTES, Mailboxes, Outgoing
from tests.transport.corridors import PATIENCE_S, Memory, Park, Said, Say, UnixCorridor

VALUES = bytes(3 * LEAST_BYTES)


@pytest.fixture
def corridor() -> Iterator[UnixCorridor]:
    gc.collect()
    gc.disable()
    opened = UnixCorridor()
    yield opened
    gc.enable()
    opened.close()


def pieces() -> tuple[int, int]:
    """Memory of paceline that this process maps, and descriptors that it has of any."""
    maps = Path("/proc/self/maps").read_text().count("/memfd:paceline")
    links = Path("/proc/self/fd")
    found = [os.readlink(links / n) for n in os.listdir(links) if (links / n).is_symlink()]
    return maps, sum("/memfd:paceline" in name for name in found)


def test_mailboxes_go_with_their_connection_at_both_ends(
    corridor: UnixCorridor, service: Memory
) -> None:
    before = pieces()
    listener = corridor.listen(service)
    for number in range(3):
        connection = corridor.connect()
        answer = connection.call(Say("much"), [VALUES], timeout_s=PATIENCE_S)
        assert bytes(answer.buffers[0]) == VALUES
        parked = connection.submit(Park(str(number)), [VALUES], reply_sizes=[len(VALUES)])
        [reply] = service.wait_parked(str(number))
        assert pieces() > before
        connection.close()
        service.wait_gone(number + 1)
        assert parked
        reply(Said("too late"), [VALUES])
        del reply
        service.parked.clear()
        service.received_buffers.clear()
    listener.close(PATIENCE_S)
    assert pieces() == before


def test_what_is_read_when_its_sender_goes_stays_until_it_has_been_read(
    corridor: UnixCorridor, service: Memory
) -> None:
    before = pieces()
    listener = corridor.listen(service)
    connection = corridor.connect()
    connection.submit(Park("one"), [b"x" * len(VALUES)])
    service.wait_parked("one")
    connection.close()
    service.wait_gone(1)
    [buffers] = service.received_buffers
    assert bytes(buffers[0]) == b"x" * len(VALUES)
    service.received_buffers.clear()
    service.parked.clear()
    del buffers
    listener.close(PATIENCE_S)
    assert pieces() == before


def test_two_that_send_at_once_share_the_mailbox_that_is_made() -> None:
    offered: list[Outgoing] = []
    places: list[InMailbox] = []
    is_offered, may_go_on = threading.Event(), threading.Event()

    def offer(made: Outgoing) -> None:
        offered.append(made)
        is_offered.set()
        assert may_go_on.wait(PATIENCE_S)

    mailboxes = Mailboxes(is_possible=True)

    def put(request_id: int) -> None:
        views = [memoryview(VALUES)]
        places.append(mailboxes.put(request_id, (), None, offer, views))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(2)]
    threads[0].start()
    assert is_offered.wait(PATIENCE_S)
    threads[1].start()
    may_go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(offered) == 1
    assert len({shared.place for shared in places} - {None}) == 2
    mailboxes.close()


def test_a_mailbox_that_cannot_be_offered_is_given_up_and_made_again() -> None:
    before = pieces()
    offered: list[int] = []

    def offer(made: Outgoing) -> None:
        offered.append(made.fd)
        if len(offered) == 1:
            raise DeadlineExceeded("the peer takes no request")

    mailboxes = Mailboxes(is_possible=True)
    with pytest.raises(DeadlineExceeded):
        mailboxes.put(1, (), None, offer, [memoryview(VALUES)])
    assert pieces() == before
    assert mailboxes.put(2, (), None, offer, [memoryview(VALUES)]).place is not None
    assert len(offered) == 2
    mailboxes.close()
    assert mailboxes.put(3, (), None, offer, [memoryview(VALUES)]) == InMailbox()
    assert pieces() == before
