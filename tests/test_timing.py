"""What is done now and then goes on until it is stopped; split seconds add up."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.timing import Repeating, SplitTime

PATIENCE_S = 10.0
THINGS = 3


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


@given(
    turns=st.lists(
        st.tuples(st.sampled_from([None, 0, 1, 2]), st.integers(0, 9)), max_size=20
    ),
    told_after=st.sets(st.integers(0, 99)),
    times=st.integers(1, SplitTime.MOST_TURNS // 8),
)
def test_what_they_go_into_adds_up_whenever_it_is_told(
    turns: list[tuple[int | None, int]], told_after: set[int], times: int
) -> None:
    split, expected, now_s = SplitTime(THINGS), [0.0] * THINGS, 0.0
    for number, (thing, seconds) in enumerate(turns * times):
        split.turn(thing, now_s)
        now_s += seconds
        if thing is not None:
            expected[thing] += seconds
        if number in told_after:
            assert split.told(now_s) == expected
    assert split.told(now_s) == expected
