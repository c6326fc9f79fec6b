"""Who may ask something at a trainer's door."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.messages.peers import SendEvent
from paceline.trainer.peers.link import Admission

HERE, TIMELINE = 7, 3


def asked(incarnation: int = 5, timeline: int = TIMELINE, to: int = HERE) -> SendEvent:
    who = {"incarnation": incarnation, "timeline": timeline, "to": to}
    return SendEvent(**who, since=1, number=1, topic="")


def kind_of(message: SendEvent, timeline: int | None = TIMELINE) -> str | None:
    refusal = Admission().refusal_of("trainer-1", message, HERE, timeline)
    return None if refusal is None else refusal.kind


def test_who_means_this_incarnation_on_this_timeline_is_let_in() -> None:
    assert kind_of(asked()) is None


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (asked(timeline=TIMELINE - 1), "timeline"),
        (asked(timeline=TIMELINE + 1), "not_ready"),
        (asked(to=HERE - 1), "stale"),
        (asked(to=HERE + 1), "not_ready"),
    ],
)
def test_whoever_is_behind_or_ahead_is_told_so(message: SendEvent, kind: str) -> None:
    assert kind_of(message) == kind


def test_an_event_has_no_timeline() -> None:
    assert kind_of(asked(timeline=0), timeline=None) is None
    assert kind_of(asked(timeline=9), timeline=None) is None


def test_an_incarnation_is_over_once_its_successor_was_here() -> None:
    known = Admission()
    assert known.refusal_of("trainer-1", asked(6), HERE, TIMELINE) is None
    refusal = known.refusal_of("trainer-1", asked(5), HERE, TIMELINE)
    assert refusal is not None
    assert refusal.kind == "fenced"
    assert known.refusal_of("trainer-2", asked(5), HERE, TIMELINE) is None


@given(st.lists(st.integers(1, 20), min_size=1))
def test_nobody_is_let_in_behind_its_successor(incarnations: list[int]) -> None:
    known, newest = Admission(), 0
    for incarnation in incarnations:
        refusal = known.refusal_of("trainer-1", asked(incarnation), HERE, TIMELINE)
        newest = max(newest, incarnation)
        assert (refusal is None) == (incarnation == newest)
