"""What is done now and then goes on, whatever becomes of one time, until it is stopped."""

import threading

import pytest

from paceline.timing import Repeating

PATIENCE_S = 10.0


def test_what_fails_once_is_logged_and_done_again(caplog: pytest.LogCaptureFixture) -> None:
    times = []
    is_done_again = threading.Event()

    def act() -> None:
        times.append(1)
        if len(times) == 1:
            raise OSError("nobody is there")
        is_done_again.set()

    repeating = Repeating("a-clock", 0.001, act)
    repeating.start()
    assert is_done_again.wait(PATIENCE_S)
    repeating.stop(PATIENCE_S)
    assert "a-clock failed" in caplog.text
    assert not [t for t in threading.enumerate() if t.name == "a-clock"]


def test_what_has_never_begun_can_be_stopped() -> None:
    Repeating("a-clock", 60.0, lambda: None).stop(PATIENCE_S)
