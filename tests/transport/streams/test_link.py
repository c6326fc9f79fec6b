"""One end of a connection, whoever attends it."""

import select
import socket
from collections.abc import Sequence
from typing import cast

from paceline.timing import Deadline, SystemClock
from paceline.transport.greeting import Reception
from paceline.transport.handshake import HelloCheck
from paceline.transport.streams.link import Link
from paceline.transport.streams.pieces import Outbox


class Interrupted:
    """An outbox in whose middle another thread looks at the link."""

    is_empty = True

    def __init__(self) -> None:
        self.link: Link | None = None
        self.sent = 0

    def send(self, pieces: Sequence[memoryview]) -> bool:
        assert pieces
        self.sent += 1
        if self.sent == 1 and self.link is not None:
            self.link.say_farewell("no hello in time", "mute")
        return True

    def close(self) -> None:
        pass


def test_a_farewell_is_said_once_by_however_many_who_look() -> None:
    mine, theirs = socket.socketpair()
    outbox = Interrupted()
    with mine, theirs, select.epoll() as epoll:
        reception = Reception(HelloCheck("run-1", "server-0", {"trainer"}), [], b"", b"")
        greeting = Deadline(SystemClock(), 1.0)
        link = outbox.link = Link(
            mine, "a test", reception, greeting, epoll, cast(Outbox, outbox)
        )
        epoll.register(link.fd, select.EPOLLONESHOT)
        link.say_farewell("no hello in time", "mute")
        assert outbox.sent == 1
        link.drop()
    assert link.loss == "mute"


class Quick(Interrupted):
    """An outbox whose other end hangs up before the sender can look."""

    def send(self, pieces: Sequence[memoryview]) -> bool:
        assert self.link is not None
        self.link.lose("gone")
        return bool(pieces)


def test_a_link_is_counted_by_its_farewell_however_quick_the_other_end_leaves() -> None:
    mine, theirs = socket.socketpair()
    outbox = Quick()
    with mine, theirs, select.epoll() as epoll:
        reception = Reception(HelloCheck("run-1", "server-0", {"trainer"}), [], b"", b"")
        greeting = Deadline(SystemClock(), 1.0)
        link = outbox.link = Link(
            mine, "a test", reception, greeting, epoll, cast(Outbox, outbox)
        )
        epoll.register(link.fd, select.EPOLLONESHOT)
        link.say_farewell("another run", "refused")
        link.drop()
    assert link.loss == "refused"
