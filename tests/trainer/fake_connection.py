"""A connection to a job without threads: it answers when it is asked, so nobody waits."""

import threading
from collections.abc import Sequence
from typing import Protocol, final

import msgspec
import numpy as np

from paceline.errors import PeerLost
from paceline.messages.data import Pull
from paceline.messages.shared import Message, Refusal
from paceline.timing import ManualClock
from paceline.transport.connection import Answer, AtOnce, Connection, Landing
from paceline.transport.frames import Buffer, byte_array
from paceline.transport.handshake import Welcome

_one_at_a_time = threading.RLock()  # jobs have no lock, and any thread may ask


class Job(Protocol):
    """Whoever answers, and notes what has travelled."""

    clock: ManualClock
    connections: int
    bytes: list[tuple[Message, int, int]]

    def must_park(self, message: Message) -> bool: ...

    def answer(
        self, role: str, message: Message, buffers: list[np.ndarray]
    ) -> tuple[Message, Sequence[Buffer]]: ...


def flat(buffer: Buffer) -> np.ndarray:
    if isinstance(buffer, bytes):
        return np.frombuffer(buffer, np.uint8)
    assert isinstance(buffer, np.ndarray)
    assert buffer.flags.c_contiguous, "only contiguous memory travels"
    return buffer.reshape(-1).view(np.uint8)


@final
class FakeConnection(Connection):
    """Answers when it is asked, so that nobody ever waits."""

    def __init__(self, job: Job, role: str) -> None:
        super().__init__(f"fake:{role}", Welcome(run="r", role=role), job.clock)
        self._job, self._role = job, role
        self._last = 0
        self._promised: dict[int, tuple[int, ...]] = {}
        self._answers: dict[int, Answer] = {}
        self._parked: dict[int, tuple[Message, list[np.ndarray], Landing | None]] = {}
        self.is_closed = False
        job.connections += 1

    def submit(
        self,
        message: msgspec.Struct,
        buffers: Sequence[Buffer] = (),
        *,
        landing: Landing | None = None,
        reply_sizes: Sequence[int] = (),
        pen: int | None = None,
        at_once: AtOnce | None = None,
        timeout_s: float = 1.0,
    ) -> int:
        assert timeout_s > 0
        del pen, at_once  # copies are made, and replies are waited for
        assert isinstance(message, Message)
        with _one_at_a_time:
            return self._submit(message, buffers, landing, reply_sizes)

    def _submit(
        self,
        message: Message,
        buffers: Sequence[Buffer],
        landing: Landing | None,
        reply_sizes: Sequence[int],
    ) -> int:
        if self.is_closed:
            raise PeerLost("closed")
        copies = [flat(buffer).copy() for buffer in buffers]
        self._promised[self._last + 1] = tuple(reply_sizes)
        self._last += 1
        if self._job.must_park(message):
            self._parked[self._last] = (message, copies, landing)
        else:
            self._answer(self._last, message, copies, landing)
        return self._last

    def _answer(
        self,
        number: int,
        message: Message,
        buffers: list[np.ndarray],
        landing: Landing | None,
    ) -> None:
        reply, values = self._job.answer(self._role, message, buffers)
        sent = [flat(value) for value in values]
        there, back = sum(b.nbytes for b in buffers), sum(b.nbytes for b in sent)
        self._job.bytes.append((message, there, back))
        promised = self._promised.pop(number, ())
        if isinstance(message, Pull) and message.known:
            assert back <= sum(promised), "rows need more room than all of a block"
        elif not isinstance(reply, Refusal) and promised:
            assert promised == tuple(value.nbytes for value in sent)
        if landing is not None and sent:
            places = landing(reply, [value.nbytes for value in sent])
            for place, value in zip(places, sent, strict=True):
                byte_array(place)[:] = value
        self._answers[number] = Answer(reply, sent)

    def wait_reply(self, request_id: int, timeout_s: float) -> Answer:
        assert timeout_s >= 0
        with _one_at_a_time:
            if request_id in self._parked:
                self._answer(request_id, *self._parked.pop(request_id))
            return self._answers.pop(request_id)

    def close(self) -> None:
        self.is_closed = True
