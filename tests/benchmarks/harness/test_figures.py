"""Ratios say who wins; records keep what the page draws."""

import json

import pytest

from benchmarks.harness.figures import (
    Figure,
    Profile,
    compared,
    figure_table,
    judged,
    kept,
    number,
    ratio_table,
    read,
    read_profiles,
)
from benchmarks.harness.goals import TABLE, Goal, wanted

GOAL = Goal("pull", "transport", "a pull", "torch RPC", at_least=8.0)
OURS = Figure("pull", "paceline", "ours", "us", (30.0, 10.0, 20.0))
PEER = Figure("pull", "torch RPC", "peer", "us", (100.0, 90.0, 110.0))


def test_a_shorter_time_is_better_and_so_is_a_higher_rate() -> None:
    assert compared(OURS, PEER).value == 5.0
    fast = OURS._replace(unit="records/s", is_more_better=True)
    assert compared(fast, PEER).value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("at_least", "at_most", "goal", "verdict"),
    [
        (5.0, None, ">= 5", "reached"),
        (8.0, None, ">= 8", "missed"),
        (None, 5.0, "<= 5", "reached"),
        (None, 3.0, "<= 3", "missed"),
    ],
)
def test_a_goal_is_reached_or_missed(
    at_least: float | None, at_most: float | None, goal: str, verdict: str
) -> None:
    wanted = Goal("pull", "transport", "a pull", "torch RPC", at_least, at_most)
    ratio = compared(OURS, PEER, wanted)
    assert (ratio.goal, ratio.verdict) == (goal, verdict)


def test_without_a_goal_there_is_no_verdict() -> None:
    ratio = compared(OURS, PEER)
    assert (ratio.goal, ratio.verdict) == ("", "")


def test_an_amount_is_judged_in_its_own_unit() -> None:
    wanted_us = Goal("pull", "transport", "a pull", "", at_most=25.0, unit="us")
    ratio = judged(OURS, wanted_us)
    assert (ratio.found, ratio.goal, ratio.verdict) == ("20 us", "<= 25", "reached")
    assert judged(OURS, wanted_us, 30.0).verdict == "missed"


def test_goals_are_asked_for_by_name_and_each_says_one_thing() -> None:
    names = [goal.name for goal in TABLE]
    assert len(set(names)) == len(names)
    assert all((goal.at_least is None) != (goal.at_most is None) for goal in TABLE)
    assert wanted("round").words == "at most 0.5 ms"
    with pytest.raises(KeyError, match="'rounds': expected one of ctr-1, "):
        wanted("rounds")


def test_only_figures_of_the_same_thing_are_compared() -> None:
    with pytest.raises(AssertionError, match="is not"):
        compared(OURS, PEER._replace(what="push"))


def test_a_record_gives_back_what_was_kept() -> None:
    ratio = compared(OURS, PEER, GOAL)
    record = kept([OURS, PEER], [ratio], "the same bytes", is_equal=True)
    assert read(json.loads(json.dumps(record))) == ([OURS, PEER], [ratio])


def test_a_profile_is_told_from_the_longest_phase_and_kept() -> None:
    profile = Profile("a step", "ms", {"push": 1.0, "forward": 3.0})
    assert profile.rows() == [
        ["a step", "ms", "share"],
        ["forward", "3", "75 %"],
        ["push", "1", "25 %"],
        ["together", "4", ""],
    ]
    record = kept([OURS], [], "nothing", is_equal=True, profiles=[profile])
    assert read_profiles(json.loads(json.dumps(record))) == [profile]
    assert read_profiles({}) == []


def test_tables_hold_medians_and_verdicts() -> None:
    assert figure_table([OURS]).splitlines()[1].split() == [
        *("pull", "paceline", "us"),
        *("20", "10", "30", "3"),
    ]
    assert ratio_table([compared(OURS, PEER, GOAL)]).endswith("5.00 times  >= 8  missed")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (4.5678, "4.57"), (12345.6, "12,346"), (99.96, "100")],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text
