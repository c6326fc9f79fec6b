"""Habits of PyTorch scripts work as in the plain loop, as documented, or are refused."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.errors import UsageError
from tests.habits.page import table
from tests.habits.playing import HABITS, Habit, play, play_plain, play_with_two

PAGE = Path(__file__).parents[2] / "docs" / "what-your-script-may-do.md"


def named(habits: list[Habit]) -> list[object]:
    return [pytest.param(habit, id=habit.script.__name__) for habit in habits]


def of(verdict: str, *, with_two: bool = False) -> list[object]:
    found = [habit for habit in HABITS if habit.verdict == verdict]
    return named([habit for habit in found if habit.with_two or not with_two])


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("habit", of("equal"))
def test_it_equals_the_plain_loop_to_the_bit(habit: Habit, tmp_path: Path) -> None:
    expected, found = play_plain(habit.script), play(habit.script, tmp_path / "job")
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("habit", of("equal", with_two=True))
def test_two_trainers_equal_the_plain_loop_on_joined_batches(
    habit: Habit, tmp_path: Path
) -> None:
    models, rounds = play_with_two(habit.script, tmp_path / "job")
    assert rounds >= 8  # two trainers cannot need more than one round a batch
    expected = play_plain(habit.script, rounds)
    for found in models:
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("habit", of("documented"))
def test_it_works_as_documented(habit: Habit, tmp_path: Path) -> None:
    def script(session: Any) -> Any:
        return habit.script(session) or []

    if not habit.with_two:
        play(script, tmp_path / "job")
        return
    (found, others), _ = play_with_two(script, tmp_path / "job")
    assert found
    for one, other in zip(found, others, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("habit", of("refused"))
def test_it_is_refused_by_name(habit: Habit, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, and ours that came before
        play_plain(habit.script)  # which the plain loop takes
        with pytest.raises(UsageError, match=re.escape(habit.says)):
            play(habit.script, tmp_path / "job")


def test_there_are_fifty_and_most_touch_what_the_three_lines_do_not() -> None:
    assert len({habit.title for habit in HABITS}) == len(HABITS) >= 50
    assert sum(habit.touches != "nothing" for habit in HABITS) >= 35


def test_the_page_has_a_row_for_each_habit() -> None:
    expected = table(HABITS)
    assert expected in PAGE.read_text(), f"what the page is to have now:\n\n{expected}"
