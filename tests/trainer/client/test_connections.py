"""The ways of a trainer to others do not hold each other up."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from paceline.errors import PeerLost
from paceline.ids import COORDINATOR
from paceline.trainer.client.connections import Courier
from paceline.transport.connection import Connection

WAIT_S = 10.0


class Slow:
    """A server that lets nobody in until it is told to; the coordinator is there."""

    def __init__(self) -> None:
        self.is_asked, self.lets_in = threading.Event(), threading.Event()
        self.made: list[SimpleNamespace] = []
        self.courier = Courier(lambda _: self._connection(), self._server)

    def _server(self, address: str, incarnation: int) -> Connection:
        assert (address, incarnation) == ("tcp:10.0.0.2:5", 1)
        self.is_asked.set()
        assert self.lets_in.wait(WAIT_S)
        return self._connection()

    def _connection(self) -> Connection:
        made = SimpleNamespace(is_closed=False)
        made.close = lambda: setattr(made, "is_closed", True)
        self.made.append(made)
        return cast("Connection", made)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def test_a_server_that_is_not_reached_keeps_nobody_from_the_coordinator(
    pool: ThreadPoolExecutor,
) -> None:
    slow = Slow()
    reached = pool.submit(slow.courier.reach, "server-0", "tcp:10.0.0.2:5", 1)
    assert slow.is_asked.wait(WAIT_S)
    try:
        told = pool.submit(slow.courier.reach, COORDINATOR, "", 1)
        assert told.result(WAIT_S) is slow.made[0]
    finally:
        slow.lets_in.set()

    assert reached.result(WAIT_S) is slow.made[1]


def test_two_who_want_the_same_way_at_once_get_one(pool: ThreadPoolExecutor) -> None:
    slow = Slow()
    both = [
        pool.submit(slow.courier.reach, "server-0", "tcp:10.0.0.2:5", 1) for _ in range(2)
    ]
    assert slow.is_asked.wait(WAIT_S)
    slow.lets_in.set()

    assert [one.result(WAIT_S) for one in both] == slow.made * 2
    assert len(slow.made) == 1


def test_a_way_that_is_found_after_the_end_is_closed_again(
    pool: ThreadPoolExecutor,
) -> None:
    slow = Slow()
    reached = pool.submit(slow.courier.reach, "server-0", "tcp:10.0.0.2:5", 1)
    assert slow.is_asked.wait(WAIT_S)
    try:
        pool.submit(slow.courier.close).result(WAIT_S)
    finally:
        slow.lets_in.set()

    with pytest.raises(PeerLost, match="closed"):
        reached.result(WAIT_S)
    assert [made.is_closed for made in slow.made] == [True]
