"""What roles write is said line by line while the run goes on, and nothing twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.echo import (
    MOST_WARNINGS,
    LogEcho,
    Warned,
    echoed,
    require_roles,
    warned,
)
from paceline.launch.job import LOG_PIECE_BYTES


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], None]:
    def append(name: str, text: str) -> None:
        with (tmp_path / f"{name}.log").open("a") as file:
            file.write(text)

    return append


def test_whole_lines_of_the_named_are_said_behind_their_name(
    tmp_path: Path, said: list[str], write: Callable[[str, str], None]
) -> None:
    write("trainer-0", "of a run before\n")
    echo = LogEcho(tmp_path, ["trainer-0"], said.append)
    write("trainer-0", "one\ntw")
    write("trainer-1", "not asked for\n")
    echo.look()
    assert said == ["trainer-0 | one"]

    write("trainer-0", "o\nthree")
    echo.look()
    echo.look()
    assert said == ["trainer-0 | one", "trainer-0 | two"]

    echo.end()
    assert said[2:] == ["trainer-0 | three"]


def test_a_kind_is_all_of_them_also_those_to_come(
    tmp_path: Path, said: list[str], write: Callable[[str, str], None]
) -> None:
    echo = LogEcho(tmp_path, ["trainer"], said.append)
    write("server-0", "no\n")
    write("trainer-10", "ten\n")
    write("trainer-2", "two\n")
    echo.look()
    assert said == ["trainer-2 | two", "trainer-10 | ten"]


def test_a_line_without_end_is_not_kept(
    tmp_path: Path, said: list[str], write: Callable[[str, str], None]
) -> None:
    echo = LogEcho(tmp_path, ["trainer-0"], said.append)
    write("trainer-0", "x" * (3 * LOG_PIECE_BYTES))
    echo.look()
    assert len(said) == 1
    assert len(said[0]) > LOG_PIECE_BYTES


def test_the_last_words_are_said_before_the_block_ends(
    tmp_path: Path, said: list[str], write: Callable[[str, str], None]
) -> None:
    with echoed(tmp_path, ["trainer-0"], said.append):
        write("trainer-0", "bye")
    assert said == ["trainer-0 | bye"]


@pytest.mark.parametrize("name", ["trainer-x", "../trainer-0", "worker", ""])
def test_what_is_no_role_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="expected a role like trainer-0"):
        require_roles(["trainer-0", "server", name])


def test_what_a_script_is_warned_of_is_said_once(
    tmp_path: Path, said: list[str], write: Callable[[str, str], None]
) -> None:
    with warned(tmp_path, said.append):
        for trainer in ("trainer-0", "trainer-1"):
            write(trainer, "train.py:9: StepWarning: track: a OneCycleLR counts\n")
            write(trainer, "  session.track(scheduler=scheduler)\n")
            write(trainer, "train.py:12: UserWarning: of somebody else\n")
            write(trainer, "train.py:14: StepWarning: step dropped: server-0 is lost\n")
    assert said == ["trainer-0 is warned: track: a OneCycleLR counts"]


def test_warnings_that_are_new_each_time_do_not_fill_the_terminal(said: list[str]) -> None:
    picked = Warned(said.append)
    for number in range(MOST_WARNINGS + 5):
        picked.line(f"trainer-0 | x.py:1: StepWarning: number {number}")
    assert len(said) == MOST_WARNINGS
