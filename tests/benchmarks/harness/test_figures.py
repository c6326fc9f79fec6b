"""Ratios say who wins; records keep what the page draws."""

import json

import pytest

from benchmarks.harness.figures import (
    Figure,
    Found,
    Measure,
    compared,
    figure_rows,
    judged,
    kept,
    measured,
    medians,
    number,
    ratio_rows,
    read,
)
from benchmarks.harness.goals import TABLE, Goal, wanted

GOAL = Goal("pull", "transport", "a pull", "torch RPC", at_least=8.0)
OURS = Figure("pull", "paceline", "ours", "us", (30.0, 10.0, 20.0))
PEER = Figure("pull", "torch RPC", "peer", "us", (100.0, 90.0, 110.0))


def is_wanted(monkeypatch: pytest.MonkeyPatch, goal: Goal) -> str:
    """The name of a goal that is the only one."""
    monkeypatch.setattr("benchmarks.harness.goals.TABLE", (goal,))
    return goal.name


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
    at_least: float | None,
    at_most: float | None,
    goal: str,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pull = Goal("pull", "transport", "a pull", "torch RPC", at_least, at_most)
    ratio = compared(OURS, PEER, is_wanted(monkeypatch, pull))
    assert (ratio.goal, ratio.verdict) == (goal, verdict)


def test_without_a_goal_there_is_no_verdict() -> None:
    ratio = compared(OURS, PEER)
    assert (ratio.goal, ratio.verdict) == ("", "")


def test_an_amount_is_judged_in_its_own_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = Goal("pull", "transport", "a pull", "", at_most=25.0, unit="us")
    pull = is_wanted(monkeypatch, goal)
    ratio = judged(OURS, pull)
    assert (ratio.found, ratio.goal, ratio.verdict) == ("20 us", "<= 25", "reached")
    assert judged(OURS, pull, 30.0).verdict == "missed"


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


def test_a_record_gives_back_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ratio = compared(OURS, PEER, is_wanted(monkeypatch, GOAL))
    record = kept(Found([OURS, PEER], [ratio], "the same bytes"))
    assert read(json.loads(json.dumps(record))) == ([OURS, PEER], [ratio])


def test_rows_hold_medians_and_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert figure_rows([OURS])[1] == ["pull", "paceline", "us", "20", "10", "30", "3"]
    ratio = compared(OURS, PEER, is_wanted(monkeypatch, GOAL))
    assert ratio_rows([ratio], [OURS, PEER])[1][3:] == ["5.00 times", ">= 8", "missed"]


def test_runs_of_candidates_are_measured_in_their_order() -> None:
    runs = {"ours": [1.0, 3.0, 2.0], "plain": [4.0, 5.0]}
    first, second, *halves = measured(
        runs,
        Measure("a step", "us", lambda run: run),
        Measure("half of it", "us", lambda run: run / 2, is_more_better=True),
        who=str.upper,
        kind=lambda one: "ours" if one == "ours" else "floor",
    )
    assert first == Figure("a step", "OURS", "ours", "us", (1.0, 3.0, 2.0))
    assert (second.who, second.kind) == ("PLAIN", "floor")
    assert [half.values for half in halves] == [(0.5, 1.5, 1.0), (2.0, 2.5)]
    assert medians(runs, lambda run: 10 * run) == {"ours": 20.0, "plain": 45.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (4.5678, "4.57"), (12345.6, "12,346"), (99.96, "100")],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text
