"""A session does one thing at a time, and nothing after its end."""

import os
import sys
import threading
from collections.abc import Generator

import pytest

from paceline.errors import Interrupted, Preempted, UsageError
from paceline.trainer.engine.open_calls import Calls


class Script:
    """What calls ask of their session."""

    def __init__(self) -> None:
        self.must_begin_again: str | None = None
        self.sent = self.ended = 0
        self.has_left = False
        self.calls = Calls(self, self.send_log, self.end_loop, lambda: self.has_left)

    def send_log(self) -> None:
        self.sent += 1

    def end_loop(self) -> None:
        self.ended += 1


def numbers() -> Generator[int, None, None]:
    yield from range(3)


def test_numbers_are_sent_at_the_end_of_every_call() -> None:
    script = Script()
    with script.calls.calling("evaluate"):
        assert script.calls.open_call == "evaluate"
        assert script.sent == 0
    assert script.calls.open_call is None
    assert script.sent == 1


def test_who_is_told_to_leave_leaves_by_ctrl_c_where_the_user_wants_the_end() -> None:
    script = Script()
    with pytest.raises(Preempted), script.calls.calling("batches"):
        raise Preempted("SIGTERM")
    assert not script.calls.was_told
    script.calls.is_interrupted = True
    with pytest.raises(KeyboardInterrupt) as told, script.calls.calling("batches"):
        raise Preempted("the user")
    assert isinstance(told.value, Interrupted)
    assert (told.value.code, str(told.value)) == (75, "the user")
    assert script.calls.was_told
    assert script.sent == 2


def test_a_loop_has_ended_when_the_script_goes_on() -> None:
    script = Script()
    loop = script.calls.iterate(numbers())
    next(loop)
    loop.close()
    ended = script.ended
    script.calls.check_idle("share", "not inside a loop")
    assert script.ended == ended + 1
    script.calls.has_failed = True
    script.calls.check_open()
    assert script.ended == ended + 1


def leave_loop(script: Script) -> None:
    loop = script.calls.iterate(numbers())
    next(loop)
    loop.close()
    script.ended, script.has_left = 0, True


def test_calls_while_an_exception_is_handled_do_not_end_a_loop() -> None:
    script = Script()
    leave_loop(script)
    try:
        raise ValueError("a bug")
    except ValueError:
        script.calls.check_open()
        with pytest.raises(UsageError, match="a loop was left by ValueError, which is be"):
            script.calls.check_idle("batches", "")
    assert script.ended == 0
    script.calls.check_open()
    assert script.ended == 1, "behind the except block the script goes on"


def test_calls_in_a_finally_block_on_the_way_out_do_not_end_a_loop() -> None:
    script = Script()
    leave_loop(script)

    def call_and_go() -> None:
        try:
            raise ValueError("a bug")
        finally:
            script.calls.check_open()

    with pytest.raises(ValueError, match="a bug"):
        call_and_go()
    assert script.ended == 0


def test_a_loop_that_was_begun_while_an_exception_was_handled_ends_there() -> None:
    script = Script()
    try:
        raise FileNotFoundError("no model yet: train one")
    except FileNotFoundError:
        leave_loop(script)
        script.calls.check_idle("evaluate", "")
    assert script.ended == 1


def test_a_loop_is_open_until_it_is_left() -> None:
    calls = Script().calls
    batches = numbers()
    loop = calls.iterate(batches)
    assert next(loop) == 0
    assert calls.loop is batches
    with pytest.raises(UsageError, match="share: not inside a loop"):
        calls.check_idle("share", "not inside a loop")
    with pytest.raises(UsageError, match="a loop is open already"):
        next(calls.iterate(numbers()))
    assert isinstance(loop, Generator)
    loop.close()
    assert calls.loop is calls.open_call is None
    assert list(calls.iterate(numbers())) == [0, 1, 2]


def test_loops_have_come_as_far_as_the_one_that_came_farthest() -> None:
    calls = Script().calls
    assert calls.loops == "none"
    with pytest.raises(UsageError, match="none was ever begun"):
        calls.begin_step()
    left = calls.iterate(numbers())
    next(left)
    left.close()
    assert calls.loops == "begun", "one that is left early has not ended"
    with pytest.raises(UsageError, match="none is open"):
        calls.begin_step()
    list(calls.iterate(numbers()))
    assert calls.loops == "ended"
    next(calls.iterate(numbers()))
    assert calls.loops == "ended", "another one has, before"


def test_a_loop_may_be_collected_while_the_session_closes_it() -> None:
    script = Script()

    def closing() -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            loop.close()  # as the collector of garbage may, at any time

    loop = script.calls.iterate(closing())
    next(loop)
    assert script.calls.loop is not None
    script.calls.loop.close()
    assert script.calls.open_call is None


def test_nothing_is_called_once_a_session_is_closed() -> None:
    script = Script()
    script.calls.check_open()
    script.calls.is_closed = True
    with pytest.raises(UsageError, match="the session is closed; connect again"):
        script.calls.check_open()
    with script.calls.calling("predict"):
        pass
    assert script.sent == 0, "nobody is there to hear it"


def test_a_script_that_must_begin_again_is_told_at_its_next_call() -> None:
    script = Script()
    script.must_begin_again = "steps before a break are lost"
    with pytest.raises(Preempted, match="steps before a break are lost"):
        script.calls.check_open()


def test_a_forked_process_is_not_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    script, own = Script(), os.getpid()
    script.calls.check_own()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    assert not script.calls.is_here()
    with pytest.raises(UsageError, match=f"belongs to process {own}; a forked process"):
        script.calls.check_own()


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As what is registered with `atexit` finds the process."""
    monkeypatch.setattr(threading.main_thread(), "is_alive", lambda: False)
    monkeypatch.delattr(sys, "last_value", raising=False)
    return monkeypatch


def test_a_call_at_exit_does_not_say_that_the_script_goes_on(
    at_exit: pytest.MonkeyPatch,
) -> None:
    script = Script()
    leave_loop(script)
    script.calls.check_open()
    assert script.ended == 0
    assert script.calls.giving_up() is None
    with pytest.raises(UsageError, match="the script is over"):
        script.calls.check_idle("share", "not inside a loop")
    failed = ValueError("a bug")
    at_exit.setattr(sys, "last_value", failed, raising=False)
    assert script.calls.giving_up() is failed
    at_exit.setattr(sys, "ps1", ">>> ", raising=False)
    assert script.calls.giving_up() is None, "errors are looked at and gone on from"


@pytest.mark.usefixtures("at_exit")
def test_a_thread_that_trains_on_when_the_main_one_has_ended_goes_on() -> None:
    script = Script()
    leave_loop(script)
    thread = threading.Thread(target=script.calls.check_open)
    thread.start()
    thread.join()
    assert script.ended == 1
