"""One process of the fork server: not understood is dead, and the dead are not asked."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import JobFailed
from paceline.launch.processes.forked import (
    LIMITS,
    REQUESTS,
    Answer,
    Failed,
    Fork,
    Forked,
    Ready,
    Reaped,
    Says,
)
from paceline.launch.processes.forkserver import Generation
from paceline.launch.processes.process import Child, spawn, wait_any
from paceline.transport.frames import PREAMBLE_BYTES
from paceline.transport.streams import FrameChannel

FORK = Fork((), {}, b"log")


class Pair:
    """A generation whose process sleeps, and the other end of its channel."""

    def __init__(self, log: Path) -> None:
        ours, self.raw = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.theirs = FrameChannel(self.raw, REQUESTS, LIMITS, "the launcher")
        ours.settimeout(0.05)
        self.process: Child = spawn("fork server", ["sleep", "1000"], {}, log)
        self.generation = Generation(self.process, ours)

    def answer(self, answer: Answer) -> None:
        self.theirs.send(answer)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path / "log")
    yield made
    made.generation.end()
    made.theirs.close()


def test_answers_are_told(pair: Pair) -> None:
    assert pair.generation.look_ready() == []
    assert not pair.generation.is_ready
    for answer in (Says("compiling"), Ready(), Forked(5), Failed("no memory"), Reaped(3)):
        pair.answer(answer)

    assert pair.generation.look_ready() == ["compiling"]
    assert pair.generation.is_ready
    assert pair.generation.ask_fork(FORK) == Forked(5)
    assert pair.generation.ask_fork(FORK) == Failed("no memory")
    assert pair.generation.reap(5) == 3
    assert not pair.generation.has_ended()


def test_who_does_not_answer_in_time_is_killed(pair: Pair) -> None:
    assert pair.generation.ask_fork(FORK) is None
    assert pair.generation.has_ended()
    assert pair.process.reap() == -signal.SIGKILL


def test_who_answers_something_else_is_killed(pair: Pair) -> None:
    pair.answer(Ready())
    pair.answer(Reaped(0))

    assert pair.generation.reap(5) == -signal.SIGKILL
    assert pair.generation.has_ended()


def test_who_does_not_speak_the_language_is_killed(pair: Pair) -> None:
    pair.raw.sendall(bytes(PREAMBLE_BYTES))

    assert pair.generation.ask_fork(FORK) is None
    assert pair.generation.has_ended()


def test_who_hangs_up_is_killed(pair: Pair) -> None:
    pair.theirs.close()
    pair.generation.look_ready()

    assert not pair.generation.is_ready
    assert pair.generation.has_ended()


def test_a_dead_fork_server_is_not_asked_to_reap(pair: Pair) -> None:
    pair.answer(Reaped(0))
    pair.process.signal(signal.SIGKILL)
    assert wait_any([pair.process], 20.0)

    assert pair.generation.reap(5) == -signal.SIGKILL


def test_a_request_that_is_too_long_is_refused_and_harms_nobody(pair: Pair) -> None:
    with pytest.raises(JobFailed, match=r"at most 16,777,216 bytes: .* has 16777\d+ bytes"):
        pair.generation.ask_fork(Fork((b"x" * LIMITS.frame_bytes,), {}, b"log"))

    pair.answer(Forked(5))
    assert pair.generation.ask_fork(FORK) == Forked(5)
    assert pair.theirs.receive().message == FORK  # nothing of the long one was sent
