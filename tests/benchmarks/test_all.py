"""`make bench` runs all that there is, and each takes the flags that it is given."""

import importlib.util
import subprocess

import pytest

from benchmarks import __main__ as everything
from benchmarks.__main__ import OURS, PEERS, SETS, Command, chosen, main
from benchmarks.goals import TABLE
from benchmarks.page import TITLES

BY_THEMSELVES = {  # `make bench-paces`, `make bench-tables`
    *("paces", "diloco"),
    *("factorisation", "factorisation_models", "topics", "clusters", "classification"),
}


def test_every_goal_has_a_benchmark_that_is_run_and_a_place_on_the_page() -> None:
    run = {command.name for command in (*OURS, *PEERS)} | BY_THEMSELVES
    assert {goal.benchmark for goal in TABLE} <= run
    assert run <= set(TITLES)


@pytest.mark.parametrize("command", [*OURS, *PEERS], ids=lambda command: command.name)
def test_every_benchmark_is_there(command: Command) -> None:
    assert importlib.util.find_spec(f"benchmarks.{command.name}") is not None


def test_small_flags_stand_behind_the_others_and_win() -> None:
    command = Command("recovery", "--times 10", "--times 2")
    assert command.words(is_small=False) == ["-m", "benchmarks.recovery", "--times", "10"]
    assert command.words(is_small=True)[-2:] == ["--times", "2"]


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
    assert [words[2] for words in ended] == ["benchmarks.ctr", "benchmarks.link"]
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:]] == [
        *("1", "0"),
    ]
