"""SIGTERM to a trainer: told at once, left alone after 3 s, ended after 8 s."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from paceline.launch.processes.signals import LeaveNotice


class StandInSession:
    def __init__(self, *, idle: bool = False) -> None:
        self.heard: list[str] = []
        self.idle = idle

    def leave_soon(self, reason: str) -> None:
        self.heard.append(f"leave: {reason}")

    def abandon(self) -> None:
        self.heard.append("abandon")

    def is_idle(self) -> bool:
        return self.idle


@pytest.fixture
def notices() -> Iterator[list[LeaveNotice]]:
    before = signal.getsignal(signal.SIGTERM)
    made: list[LeaveNotice] = []
    yield made
    for notice in made:
        notice.close()
    signal.signal(signal.SIGTERM, before)


def told(session: StandInSession, notices: list[LeaveNotice]) -> list[float]:
    """Send SIGTERM; returns how long was waited, in seconds, when all is over."""
    waited: list[float] = []
    ended = threading.Event()

    def end(code: int) -> None:
        session.heard.append(f"end {code}")
        ended.set()

    def wait_s(seconds: float) -> None:
        waited.append(seconds)
        if session.idle:
            ended.set()

    notices.append(LeaveNotice(session, wait_s, end))
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended.wait(60)
    return waited


def test_a_trainer_that_does_not_leave_is_left_alone_and_then_ended(
    notices: list[LeaveNotice],
) -> None:
    session = StandInSession()
    assert told(session, notices) == [3.0, 5.0]
    assert session.heard == ["leave: SIGTERM", "abandon", "end 75"]


def test_a_script_behind_its_loop_is_not_hurried(notices: list[LeaveNotice]) -> None:
    session = StandInSession(idle=True)
    assert told(session, notices) == [3.0]
    assert session.heard == ["leave: SIGTERM"]


def test_another_signal_tells_nobody_to_leave(notices: list[LeaveNotice]) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    session = StandInSession()
    notices.append(LeaveNotice(session, lambda _: None, lambda _: None))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    notices.pop().close()
    assert session.heard == []


def test_a_signal_to_a_forked_process_does_not_reach_the_session(
    notices: list[LeaveNotice],
) -> None:
    session = StandInSession()
    notices.append(LeaveNotice(session, lambda _: None, lambda _: None))
    pid = os.fork()
    if pid == 0:
        signal.pause()
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    notices.pop().close()
    assert session.heard == []
