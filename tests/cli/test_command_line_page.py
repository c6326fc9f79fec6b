"""The page about the command line names what the program takes: no more, no less."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer

from paceline.cli.main import COMMANDS as PROGRAM
from paceline.cli.main import app_of
from paceline.errors import USAGE_EXIT_CODE
from paceline.launch.processes.signals import END_S
from paceline.launch.supervise.supervision import LEAVE_S, SAVE_S
from paceline.watch.summary import EXIT_CODES

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
GROUP = typer.main.get_command(app_of(PROGRAM))
SECTION = re.compile(
    r"^## paceline ([a-z0-9 ]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
OPTION = re.compile(r"^\| `(--?[\w-]+)` \|([^|]*)\|", re.MULTILINE)
LEADING = {"pace": ["[JOB_DIR]", "PACE"]}  # what may be left out stands in front
USAGE = re.compile(
    r"^paceline [a-z0-9 ]+ ((?:\[options\] ?|\[?[A-Z_]+\]? ?)+)$", re.MULTILINE
)


def commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """{command: what typer knows of it}, those of a group by both names."""
    found = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        found |= commands(command, f"{name} ") if inner else {prefix + name: command}
    return found


COMMANDS = commands(GROUP)


def sections(page: str) -> dict[str, str]:
    """{command: what the page says about it}."""
    return dict(SECTION.findall(page))


SAME = {  # {command: one that takes the same, but for these options}
    "role server": ("host", {"--servers", "--trainers"}),
    "role trainer": ("host", {"--servers", "--trainers"}),
    "role coordinator": ("run", {"--coordinator-only"}),
    "manifests jobset": ("manifests k8s", set[str]()),
}


def options(section: str) -> dict[str, str]:
    """{option: its default as the page says it}."""
    return {name: default.strip() for name, default in OPTION.findall(section)}


def taken(command: str) -> dict[str, str]:
    """{option: its default as the program shows it}."""
    return {
        name: shown if isinstance(shown := option.show_default, str) else ""
        for option in COMMANDS[command].params
        if option.param_type_name == "option"
        for name in option.opts
    }


def usage(arguments: Iterable[tuple[str, bool]]) -> list[str]:
    """Arguments as a usage line writes them."""
    return [name.upper() if needed else f"[{name.upper()}]" for name, needed in arguments]


def test_the_page_names_every_command_and_no_other() -> None:
    assert set(sections(PAGE)) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_every_option_with_its_default(command: str) -> None:
    same, given = SAME.get(command, (command, set[str]()))
    section = sections(PAGE)[command]

    written = options(sections(PAGE)[same])
    assert {n: d for n, d in written.items() if n not in given} == taken(command)
    assert same == command or f"(#paceline-{same.replace(' ', '-')})" in PAGE
    assert all(option in section for option in given)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_every_argument(command: str) -> None:
    written = USAGE.search(sections(PAGE)[command])
    assert written, f"no usage line of paceline {command}"
    words = [word for word in written[1].split() if word != "[options]"]
    taken_in_order = usage(
        (argument.name, argument.required)
        for argument in COMMANDS[command].params
        if argument.param_type_name == "argument"
    )
    assert words == LEADING.get(command, taken_in_order)


def test_the_page_names_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == {*EXIT_CODES.values(), USAGE_EXIT_CODE}


def test_an_option_that_is_missing_or_has_another_default_is_caught() -> None:
    page = PAGE.replace("| `--servers` | 1 |", "| `--servers` | 2 |")
    page = page.replace("| `--seed` | 0 |", "| seed | 0 |")
    written = options(sections(page)["run"])
    assert {
        name for name, default in taken("run").items() if written.get(name) != default
    } == {
        "--servers",
        "--seed",
    }


def test_the_page_says_how_long_an_interrupted_run_may_take() -> None:
    [section] = re.findall(r"^## Ctrl-C\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    bounds = re.findall(r"\| (\d+) s \|$", section, re.MULTILINE)
    assert bounds[:2] == [f"{LEAVE_S:g}", f"{SAVE_S:g}"]
    assert f"{END_S:g} s" in section
