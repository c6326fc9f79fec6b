"""What strangers send cannot forge the log, nor fill the disk with it."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.timing import ManualClock
from paceline.transport.streams.complaints import EVERY_S, LINES, Complaints, printable

characters = st.integers(0, 0x10FFFF).map(chr)


@given(st.lists(characters).map("".join))
def test_whatever_was_sent_is_one_printable_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


def test_readable_text_stays_as_it_is() -> None:
    assert printable("trainer-0 sagt: grüß Gott") == "trainer-0 sagt: grüß Gott"
    assert printable("a\n\x1b[2J\x00") == r"a\n\x1b[2J\x00"


def test_a_flood_is_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = Complaints("tcp:127.0.0.1:1", clock)
    for number in range(LINES + 500):
        complaints.say("turning away", "somebody", f"{number}")
    assert len(caplog.records) == LINES
    clock.advance(EVERY_S)
    complaints.say("turning away", "somebody", "later")
    assert caplog.records[-1].levelno == logging.WARNING
    assert caplog.messages[-1] == (
        "tcp:127.0.0.1:1: turning away somebody: later (500 like complaints were left out)"
    )


def test_a_forged_line_of_the_log_is_spelt_out(caplog: pytest.LogCaptureFixture) -> None:
    Complaints("here", ManualClock()).say("turning away", "x\ny", "a\nERROR forged")
    assert caplog.messages == [r"here: turning away x\ny: a\nERROR forged"]
