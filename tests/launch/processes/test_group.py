"""Which process of a trainer shows no life."""

import pytest

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.job.environment import read_place
from paceline.launch.processes.group import Silence
from tests.launch.job.test_environment import place


def test_one_that_stands_still_for_so_many_looks_is_silent() -> None:
    silence = Silence({1: 0, 2: 0}, looks=3)
    assert [silence.look({1: n, 2: min(n, 4)}) for n in range(8)] == [None] * 7 + [2]


def test_a_watcher_that_slept_accuses_nobody() -> None:
    silence = Silence({1: 0}, looks=2)
    assert [silence.look({1: n}) for n in (0, 0, 100, 100, 101)] == [None] * 5


def test_a_trainer_of_several_is_told_how_many() -> None:
    several = place("trainer-0")._replace(size=3)
    assert several.variables()["PACELINE_RANKS"] == "3"
    assert read_place(several.variables()) == several


def test_no_number_of_processes_is_refused() -> None:
    with pytest.raises(UsageError, match="PACELINE_RANKS='few' is no number"):
        read_place({**place("trainer-0").variables(), "PACELINE_RANKS": "few"})
    with pytest.raises(UsageError, match="ranks-per-trainer must be >= 1, got 0"):
        JobConfig(run="r", ranks_per_trainer=0)
