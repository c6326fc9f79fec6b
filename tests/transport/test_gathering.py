"""Requests that are there at once are brought together to a service that gathers them."""

import contextlib
import threading
from collections.abc import Iterator

import msgspec
import pytest

from paceline.transport.frames import ByteArray
from paceline.transport.listener import Bounds
from paceline.transport.service import Peer, Reply
from tests.transport.corridors import PATIENCE_S, Said, Say, UnixCorridor

ONE_THREAD = Bounds(num_threads=1, num_together=8)


class Gathering:
    """A service that answers at the end of a group; the text ``wait`` keeps its thread."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.is_waiting, self.go_on = threading.Event(), threading.Event()
        self.fails = False
        self._group: list[str] | None = None

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        self._group = []
        yield
        self.groups.append(self._group)
        self._group = None
        if self.fails:
            raise RuntimeError("asked to fail")

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        assert isinstance(message, Say), peer
        assert not buffers
        if message.text == "wait":
            self.is_waiting.set()
            assert self.go_on.wait(PATIENCE_S)
        elif self._group is not None:
            self._group.append(message.text)
        reply(Said(message.text))

    def disconnected(self, peer: Peer) -> None: ...


@pytest.fixture
def corridor() -> Iterator[UnixCorridor]:
    opened = UnixCorridor()
    yield opened
    opened.close()


@pytest.mark.parametrize("fails", [False, True])
def test_requests_of_several_that_are_there_at_once_come_together(
    fails: bool, corridor: UnixCorridor
) -> None:
    service = Gathering()
    service.fails = fails
    corridor.listen(service, bounds=ONE_THREAD)
    first, *others = [corridor.connect() for _ in range(4)]
    asked = first.submit(Say("wait"))
    assert service.is_waiting.wait(PATIENCE_S)
    numbers = [one.submit(Say(text)) for one, text in zip(others, "abc", strict=True)]
    service.go_on.set()
    assert first.wait_reply(asked, PATIENCE_S).message == Said("wait")
    for one, number, text in zip(others, numbers, "abc", strict=True):
        assert one.wait_reply(number, PATIENCE_S).message == Said(text)
    assert first.call(Say("alone"), timeout_s=PATIENCE_S).message == Said("alone")
    assert [sorted(group) for group in service.groups] == [["a", "b", "c"]]


def test_a_service_that_does_not_gather_is_served_alike(corridor: UnixCorridor) -> None:
    service = Gathering()
    plain = _Plain(service)
    corridor.listen(plain, bounds=ONE_THREAD)
    connections = [corridor.connect() for _ in range(3)]
    numbers = [one.submit(Say("x")) for one in connections]
    for one, number in zip(connections, numbers, strict=True):
        assert one.wait_reply(number, PATIENCE_S).message == Said("x")
    assert service.groups == []


class _Plain:
    def __init__(self, service: Gathering) -> None:
        self.received, self.disconnected = service.received, service.disconnected
