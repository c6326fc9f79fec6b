"""`make bench` runs all that there is, and each takes the flags that it is given."""

import importlib.util
import subprocess

import pytest

from benchmarks import __main__ as everything
from benchmarks.__main__ import MODULES, SETS, Command, chosen, main
from benchmarks.harness.goals import TABLE
from benchmarks.harness.page import TITLES

ALL = [command for found in SETS.values() for command in found]


def test_every_goal_has_a_benchmark_that_is_run_and_a_place_on_the_page() -> None:
    assert {goal.benchmark for goal in TABLE} <= {command.name for command in ALL}
    assert {goal.benchmark for goal in TABLE} <= set(TITLES) <= set(MODULES)


@pytest.mark.parametrize("module", MODULES.values())
def test_every_benchmark_is_there(module: str) -> None:
    assert importlib.util.find_spec(f"benchmarks.{module}") is not None


def test_small_flags_stand_behind_the_others_and_win() -> None:
    command = Command("recovery", "recovery.compare", "--times 10", "--times 2")
    words = ["-m", "benchmarks", "recovery", "--times", "10"]
    assert command.words(is_small=False) == words
    assert command.words(is_small=True) == [*words, "--times", "2"]


def test_only_those_that_are_named_run() -> None:
    assert [command.name for command in chosen("ours", "link,ctr")] == ["link", "ctr"]
    assert chosen("peers", "") == list(SETS["peers"])
    with pytest.raises(ValueError, match="'lnk': expected one of ctr, dense, "):
        chosen("ours", "lnk")


def test_one_that_fails_does_not_keep_the_next_from_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[list[str]] = []

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ended.append(words)
        return subprocess.CompletedProcess(words, returncode=int(len(ended) == 1))

    monkeypatch.setattr(everything.subprocess, "run", run)
    assert main(["benchmarks", "--only", "ctr,link"]) == 1
    assert [words[1:] for words in ended] == [
        ["-m", "benchmarks", name] for name in ("ctr", "link")
    ]
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == [
        *("1", "0"),
    ]
