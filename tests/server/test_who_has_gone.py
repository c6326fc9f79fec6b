"""Nothing is copied for trainers that have gone, so a server with many of them closes."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.errors import PeerLost
from paceline.messages.data import DataReply, DataRequest, Pull
from paceline.server.service import ServerService
from paceline.server.slots.block_reads import BlockReads
from paceline.transport.connection import Connection
from paceline.transport.frames import DATA_LIMITS, ByteArray
from paceline.transport.handshake import Hello, HelloCheck
from paceline.transport.listener import Listener
from paceline.transport.opening import connect, listen
from paceline.transport.service import Peer, Reply
from tests.server.conftest import CLOCK, PATIENCE_S, Server, make_plan

TRAINERS, SLOTS = 100, 2


class Crowd:
    """Many trainers that ask for values and read nothing; the first answer takes long."""

    def __init__(self, server: Server, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.num_copied = 0
        self.is_copying, self.may_copy = threading.Event(), threading.Event()
        self._asked = threading.Semaphore(0)
        self._patch_copy(patch)
        self._patch_received(patch)
        self._address = f"unix:{folder / 's.sock'}"
        self.listener: Listener = listen(
            self._address,
            server.service,
            hello_check=HelloCheck("run", "server-0", {"trainer"}),
            request_type=lambda _: DataRequest,
            clock=CLOCK,
            limits=DATA_LIMITS,
        )
        self.connections = [self._connect(number) for number in range(TRAINERS)]

    def ask(self) -> list[int]:
        """Have everybody's question wait at the slots; the numbers of the questions."""
        pull = Pull(incarnation=11, timeline=0, part=0)
        numbers = [connection.submit(pull) for connection in self.connections]
        assert self.is_copying.wait(PATIENCE_S)
        for _ in range(TRAINERS - SLOTS):  # whoever runs a slot's queue still copies
            assert self._asked.acquire(timeout=PATIENCE_S)
        return numbers

    def _connect(self, number: int) -> Connection:
        hello = Hello(run="run", role=f"trainer-{number}", incarnation=11 + number)
        return connect(self._address, hello, DataReply, DATA_LIMITS, CLOCK, PATIENCE_S)

    def _patch_copy(self, patch: pytest.MonkeyPatch) -> None:
        write = BlockReads._write

        def write_slowly(reads: BlockReads, *arguments: Any) -> None:
            self.num_copied += 1
            self.is_copying.set()
            assert self.may_copy.wait(PATIENCE_S)
            write(reads, *arguments)

        patch.setattr(BlockReads, "_write", write_slowly)

    def _patch_received(self, patch: pytest.MonkeyPatch) -> None:
        received = ServerService.received

        def receive(
            service: ServerService,
            peer: Peer,
            message: msgspec.Struct,
            buffers: list[ByteArray],
            reply: Reply,
        ) -> None:
            received(service, peer, message, buffers, reply)
            self._asked.release()

        patch.setattr(ServerService, "received", receive)


@pytest.fixture
def crowd(
    make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Crowd]:
    # A folder of the test itself could be too long for a socket path.
    folder = Path(tempfile.mkdtemp(prefix="pl-"))
    opened = Crowd(make_server(plan=make_plan()), folder, monkeypatch)
    yield opened
    opened.may_copy.set()
    for connection in opened.connections:
        connection.close()
    opened.listener.close(PATIENCE_S)
    shutil.rmtree(folder)


def test_a_server_that_closes_copies_no_more_for_a_crowd_that_waits(crowd: Crowd) -> None:
    numbers = crowd.ask()
    closing = threading.Thread(target=crowd.listener.close, args=(PATIENCE_S,))
    closing.start()
    for connection, number in zip(crowd.connections, numbers, strict=True):
        with pytest.raises(PeerLost):
            connection.wait_reply(number, PATIENCE_S)
    copied = crowd.num_copied
    crowd.may_copy.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert crowd.num_copied <= copied + SLOTS, "only what had begun is ended"
