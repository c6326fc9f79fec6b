"""Signals reach a waiting thread, once each, and mean what they meant before afterwards."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from paceline.launch.processes.signals import Signals

CAUGHT = [signal.SIGUSR1, signal.SIGUSR2]
Listen = Callable[..., Signals]


@pytest.fixture
def listen() -> Iterator[Listen]:
    made: list[Signals] = []

    def make(came: Callable[[FrameType | None], object] = lambda _: None) -> Signals:
        made.append(Signals(CAUGHT, came))
        return made[-1]

    yield make
    for one in made:
        one.hang_up()
        one.close()


def test_each_signal_is_heard_once_and_others_are_not(listen: Listen) -> None:
    before = signal.signal(signal.SIGURG, lambda *_: None)
    signals = listen()
    for number in (signal.SIGUSR2, signal.SIGURG, signal.SIGUSR1):
        signal.raise_signal(number)
    assert signals.wait(60) == bytes([signal.SIGUSR2, signal.SIGUSR1])
    assert signals.wait(0.01) == b""
    signal.signal(signal.SIGURG, before)


def test_the_main_thread_is_told_where_it_is(listen: Listen) -> None:
    frames: list[FrameType | None] = []
    listen(frames.append)
    signal.raise_signal(signal.SIGUSR1)
    [frame] = frames
    assert frame is not None
    assert frame.f_code.co_name == "test_the_main_thread_is_told_where_it_is"


def test_a_knock_reaches_the_main_thread_and_is_no_request(listen: Listen) -> None:
    told = threading.Event()
    signals = listen(lambda _: told.set())
    thread = threading.Thread(target=signals.knock)
    thread.start()
    assert told.wait(60)
    thread.join()
    assert signals.wait(0.01) == b""
    signal.raise_signal(signal.SIGUSR1)
    assert signals.wait(60) == bytes([signal.SIGUSR1])


def test_it_hears_when_somebody_else_has_the_descriptor(listen: Listen) -> None:
    signals = listen()
    read, write = os.pipe()
    os.set_blocking(write, False)
    ours = signal.set_wakeup_fd(write)
    signal.raise_signal(signal.SIGUSR1)
    assert signals.wait(60) == bytes([signal.SIGUSR1])
    assert signal.set_wakeup_fd(ours) == write, "it was left to who has it"
    os.close(read)
    os.close(write)


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signals = Signals(CAUGHT)
    signals.hang_up()
    assert signals.wait(None) == b"", "who waits returns"
    signals.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    signal.signal(signal.SIGUSR1, before)


def test_what_a_script_has_changed_meanwhile_stays() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    signals = Signals(CAUGHT)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signals.hang_up()
    signals.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_to_a_forked_process_is_not_heard_here(listen: Listen) -> None:
    signals = listen()
    pid = os.fork()
    if pid == 0:
        signal.pause()
    os.kill(pid, signal.SIGUSR1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGUSR1
    assert signals.wait(0.01) == b""
