"""What a trainer's terminal is told of its waits, and when."""

from collections.abc import Mapping
from typing import Any

import pytest

from paceline.ids import COORDINATOR
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.messages.trainer import AskRecords, Joined, Records
from paceline.messages.waits import Wait
from paceline.timing import ManualClock
from paceline.trainer.acts import Lost
from paceline.trainer.client.waits import GOES_ON_S, SILENT_S, Waits

ROUND = Wait("round", "round 4 waits for trainer-1", ("trainer-1",))
CALLS = {COORDINATOR: AskRecords(incarnation=1, timeline=0)}
PUT_OFF = {COORDINATOR: Waiting(wait=ROUND)}
ANSWERED = {COORDINATOR: Records(records=1)}


class Terminal:
    """Waits of a trainer, its clock, and the lines that it has told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines: list[str] = []
        self.waits = Waits("trainer-0", self.clock, self.lines.append)

    def passes(self, seconds: float) -> list[str]:
        """Time passes; what was told meanwhile."""
        told = len(self.lines)
        for _ in range(round(seconds * 4)):
            self.clock.advance(0.25)
            self.waits.look()
        return self.lines[told:]

    def put_off(self, seconds: float) -> list[str]:
        """It asks once a second, and is put off each time."""
        told = len(self.lines)
        for _ in range(round(seconds)):
            self.waits.asks(CALLS, self.clock.now_s())
            self.passes(1.0)
            self.waits.heard(PUT_OFF)
        return self.lines[told:]


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def test_a_short_wait_is_not_told(terminal: Terminal) -> None:
    assert terminal.put_off(9.0) == []
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.waits.heard(ANSWERED)
    assert terminal.passes(60.0) == []


def test_a_wait_is_told_after_ten_seconds_again_while_it_lasts_and_at_its_end(
    terminal: Terminal,
) -> None:
    told = terminal.put_off(10.0)
    assert told == [
        "trainer-0 waits for trainer-1 (round), 10 s: round 4 waits for trainer-1"
    ]
    assert terminal.put_off(29.0) == []
    assert terminal.put_off(1.0) == [
        "trainer-0 still waits for trainer-1 (round), 40 s: round 4 waits for trainer-1"
    ]
    assert terminal.put_off(59.0) == [], "ever more rarely"
    assert len(terminal.put_off(1.0)) == 1
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.waits.heard(ANSWERED)
    assert terminal.lines[-1] == (
        "trainer-0 goes on after 100 s: it has waited for trainer-1 (round)"
    )
    assert terminal.passes(60.0) == []


def test_a_full_disk_is_told_every_ten_seconds_for_as_long_as_it_lasts(
    terminal: Terminal,
) -> None:
    terminal.put_off(45.0)
    assert len(terminal.lines) == 2, "for another trainer, after 10 and 40 s"
    full = Wait("disk", "the disk is full", (COORDINATOR,))
    for _ in range(600):
        terminal.waits.asks(CALLS, terminal.clock.now_s())
        terminal.passes(1.0)
        terminal.waits.heard({COORDINATOR: Waiting(wait=full, is_held=True)})
    told = terminal.lines[2:]
    assert told[0] == (
        "trainer-0 still waits for coordinator (disk), 50 s: the disk is full"
    )
    assert len(told) == 60


def test_the_next_wait_begins_anew(terminal: Terminal) -> None:
    terminal.put_off(12.0)
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.waits.heard(ANSWERED)
    assert terminal.put_off(9.0) == []
    assert len(terminal.put_off(1.0)) == 1


def test_many_short_waits_are_no_long_one(terminal: Terminal) -> None:
    for _ in range(100):
        assert terminal.put_off(1.0) == []
        terminal.waits.asks(CALLS, terminal.clock.now_s())
        terminal.waits.heard(ANSWERED)
        terminal.waits.rests(terminal.clock.now_s())


def test_who_lets_nothing_be_heard_is_who_is_waited_for(terminal: Terminal) -> None:
    terminal.put_off(2.0)
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.passes(SILENT_S)
    assert terminal.waits.current() == Wait(
        "round", ROUND.reason, ROUND.whom, since_s=2.0 + SILENT_S
    )
    [told] = terminal.passes(10.0)
    assert told == (
        "trainer-0 waits for coordinator (coordinator), 10 s: coordinator: AskRecords"
    )


def test_a_coordinator_that_is_away_is_told(terminal: Terminal) -> None:
    away = Wait("coordinator", "the coordinator is away: refused", (COORDINATOR,))
    for _ in range(24):
        terminal.waits.asks(CALLS, terminal.clock.now_s())
        terminal.waits.heard({COORDINATOR: Lost("refused")})
        terminal.waits.pauses(away, terminal.clock.now_s())
        terminal.passes(0.5)
    [told] = terminal.lines
    assert told.startswith("trainer-0 waits for coordinator (coordinator), 10 s: ")


def test_who_joins_and_finds_no_servers_waits_for_them(terminal: Terminal) -> None:
    missing = Wait("servers", "1 of 2 servers are not there yet", ("server-1",))
    joined = Joined(
        incarnation=1,
        timeline=0,
        generation=1,
        pace=None,  # type: ignore[arg-type]  # not looked at
        seed=0,
        servers={},
        beat_s=1.0,
        wait=missing,
    )
    for _ in range(100):
        terminal.waits.asks(CALLS, terminal.clock.now_s())
        terminal.waits.heard({COORDINATOR: joined})
        terminal.waits.pauses(missing, terminal.clock.now_s())
        terminal.passes(0.25)
    assert len(terminal.lines) == 1
    assert "waits for server-1 (servers), 10 s" in terminal.lines[0]


def test_a_wait_goes_on_through_acts_that_follow_each_other(terminal: Terminal) -> None:
    """A loop that is put off flushes what is open, and asks again."""
    for _ in range(10):
        terminal.put_off(1.0)
        terminal.waits.rests(terminal.clock.now_s())
        assert terminal.waits.current() is None
    assert len(terminal.lines) == 1


def test_what_the_script_computes_is_no_wait(terminal: Terminal) -> None:
    terminal.put_off(5.0)
    terminal.waits.rests(terminal.clock.now_s())
    assert terminal.passes(60.0) == []
    assert terminal.put_off(9.0) == [], "and none before it counts"


def test_a_wait_that_was_given_up_is_over_with_it(terminal: Terminal) -> None:
    terminal.put_off(12.0)
    terminal.waits.rests(terminal.clock.now_s(), is_over=True)
    assert terminal.lines[-1].startswith("trainer-0 goes on after 12 s")


def test_a_wait_that_was_told_and_left_ends_a_moment_later(terminal: Terminal) -> None:
    terminal.put_off(12.0)
    terminal.waits.rests(terminal.clock.now_s())
    [told] = terminal.passes(GOES_ON_S + 0.25)
    assert told.startswith("trainer-0 goes on after 12 s")


def test_a_refusal_ends_a_wait_unless_it_says_to_try_again(terminal: Terminal) -> None:
    terminal.put_off(3.0)
    not_ready = Refusal(kind="not_ready", text="part 0 is not here yet")
    terminal.waits.heard({"server-0": not_ready})
    assert terminal.waits.current() is not None
    terminal.waits.heard({"server-0": Refusal(kind="invalid", text="no")})
    assert terminal.waits.current() is None


def test_what_is_shown_is_waited_for_whatever_is_asked_meanwhile(
    terminal: Terminal,
) -> None:
    events = Wait("events", "events of other trainers")
    with terminal.waits.showing(events):
        for _ in range(11):
            terminal.passes(1.0)
            terminal.waits.asks(CALLS, terminal.clock.now_s())
            terminal.waits.heard(ANSWERED)
            terminal.waits.rests(terminal.clock.now_s())
    assert terminal.lines == [
        "trainer-0 waits (events), 10 s: events of other trainers",
        "trainer-0 goes on after 11 s: it has waited (events)",
    ]


class SeenMeanwhile(dict[str, Message | Lost]):
    """Replies that come while another thread looks."""

    def __init__(self, waits: Waits, replies: Mapping[str, Message]) -> None:
        super().__init__(replies)
        self._waits: Waits | None = waits

    def values(self) -> Any:
        waits, self._waits = self._waits, None
        assert waits is None or waits.current() is not None
        return super().values()


def test_what_is_answered_while_somebody_looks_is_over(terminal: Terminal) -> None:
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.clock.advance(12.0)
    terminal.waits.heard(SeenMeanwhile(terminal.waits, ANSWERED))
    assert terminal.waits.current() is None
    assert terminal.passes(60.0) == []


def test_what_has_been_asked_is_waited_for_until_it_is_answered(terminal: Terminal) -> None:
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.clock.advance(1.5)
    waited = terminal.waits.current()
    assert waited is not None
    assert (waited.kind, waited.since_s) == ("coordinator", 1.5)
    terminal.waits.heard(ANSWERED)
    assert terminal.waits.current() is None


def test_what_is_posted_and_left_alone_is_no_wait(terminal: Terminal) -> None:
    terminal.waits.asks(CALLS, terminal.clock.now_s())
    terminal.waits.rests(terminal.clock.now_s())
    assert terminal.waits.current() is None
    assert terminal.passes(60.0) == []
