"""Commands of the pages, read by the very programs that would run them, which do not run.

Each `refusal_*` says why a command would be refused, and nothing where it would be taken.
"""

import argparse
import contextlib
import importlib.util
import io
import re
import runpy
import shlex
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import typer

from paceline.cli.main import COMMANDS, app_of
from paceline.cli.options import parse_every, parse_seconds
from paceline.config import parse_pace, parse_trainers
from paceline.errors import UsageError
from paceline.forecast import models
from tests.docs.blocks import ROOT

PROGRAM = typer.main.get_command(app_of(COMMANDS))
# A usage line of the page of commands, which tests/cli/test_command_line_page.py reads.
USAGE = re.compile(r"\[[A-Za-z_]+\]")
REST = "..."  # and what else you say
ENDS = re.compile(r"[|>;]|&&")
SECONDS = ("timeout", "first_batch", "disk_wait", "stay", "join_within", "orphan_after")
READERS: dict[str, Callable[[str], object]] = {  # {parameter: what reads its text}
    "pace": parse_pace,
    "trainers": parse_trainers,
    "checkpoint_every": partial(parse_every, "--checkpoint-every"),
    **{name: partial(parse_seconds, f"--{name}") for name in SECONDS},
}
OF_FORECASTS: dict[str, Callable[[str], object]] = {
    "compute": partial(models.parse_compute, "--compute"),
    "network": partial(models.parse_network, "--network"),
    "parameters": partial(models.parse_bytes, "--parameters"),
    "deaths": partial(models.parse_deaths, "--deaths"),
}


class Taken(BaseException):
    """A parser has taken all words: its program would begin."""


def words_of(line: str) -> list[str]:
    """The words of a command, to the end of it: a pipe, another command, a file."""
    words = shlex.split(line)
    ends = [n for n, word in enumerate(words) if ENDS.match(word)]
    return words[: ends[0]] if ends else words


def refusals(line: str) -> Iterator[str]:
    """Why programs of ours would refuse what a line has them do."""
    words = words_of(line)
    if "paceline" in words:  # also behind `srun ...` or `kubectl exec ... --`
        said = words[words.index("paceline") + 1 :]
        if not any(map(USAGE.search, said)):
            yield from refusal_paceline(said)
    elif re.fullmatch(r"(.*/)?python3?", words[0]):
        yield from refusal_python(words[1:])
    elif words[0] == "pytest":
        yield from refusal_pytest(words[1:])
    elif words[0] == "pip":
        yield from refusal_pip(words[1:])


def refusal_paceline(said: Sequence[str]) -> Iterator[str]:
    """Options, what they take, and how many words there are."""
    words = list(said)
    if words[-1:] == [REST]:
        words[-1] = "train.py"
    command: Any = PROGRAM
    names = []
    while hasattr(command, "commands"):
        names.append(words.pop(0) if words else "")
        if names[-1] not in command.commands:
            yield f"there is no command {' '.join(names)!r}"
            return
        command = command.commands[names[-1]]
    if names == ["script", "slurm"] and "--" in words:
        # What stands behind goes to the machines' own command.
        behind = words[words.index("--") + 1 :]
        command_there = ["host", "--join", "there"] if "--join" in words else ["run"]
        yield from refusal_paceline([*command_there, *behind])
    try:
        context = command.make_context(names[-1], words)
    except Exception as error:  # noqa: BLE001  (a class of typer's own copy of click)
        yield f"{type(error).__name__}: {getattr(error, 'message', error)}"
        return
    of_forecasts = OF_FORECASTS if names == ["simulate"] else {}
    yield from _unreadable(context.params, READERS | of_forecasts)
    script = context.params.get("script") or ""
    if script.startswith("examples/"):
        yield from refusal_of_parser(script, context.params["arguments"] or [])


def _unreadable(
    params: dict[str, Any], readers: dict[str, Callable[[str], object]]
) -> Iterator[str]:
    for name in params.keys() & readers.keys():
        value = params[name]
        for text in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(text, str):
                continue
            try:
                readers[name](text)
            except UsageError as error:
                yield str(error)


def refusal_python(words: Sequence[str]) -> Iterator[str]:
    """A module that is not there, or whose parser refuses; of a user's script nothing."""
    if words[:1] != ["-m"]:
        if words and words[0].startswith(("examples/", "tools/")):
            yield from refusal_of_parser(words[0], words[1:])
        return
    module, *rest = words[1:] or [""]
    if module == "pytest":
        yield from refusal_pytest(rest)
    elif module == "pip":  # setuptools warns whoever looks for it where distutils is loaded
        return
    elif module and importlib.util.find_spec(module) is None:
        yield f"there is no module {module}"
    elif module == "benchmarks" and "NAME" not in rest:
        yield from refusal_of_parser(module, rest)


def refusal_of_parser(program: str, words: Sequence[str]) -> Iterator[str]:
    """What the argparse of a script or a module says; it is run up to there."""
    parse, said = argparse.ArgumentParser.parse_args, io.StringIO()

    def take(self: argparse.ArgumentParser, *given: Any) -> None:
        parse(self, *given)
        raise Taken

    run = runpy.run_path if program.endswith(".py") else runpy.run_module
    where = str(ROOT / program) if program.endswith(".py") else program
    path = [str((ROOT / program).parent), *sys.path]
    with (
        mock.patch.object(sys, "argv", [program, *words]),
        mock.patch.object(sys, "path", path),
        mock.patch.object(argparse.ArgumentParser, "parse_args", take),
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(said),
        warnings.catch_warnings(),  # other tests have imported some of it before
    ):
        warnings.simplefilter("ignore")
        try:
            run(where, run_name="__main__")
        except Taken:
            return
        except SystemExit as ended:
            if not ended.code and {"-h", "--help"} & set(words):
                return
        yield f"{program}: {said.getvalue() or 'it has read no arguments'}"


def refusal_pytest(words: Sequence[str]) -> Iterator[str]:
    """A file or a folder that is not there, or has nothing of a name that is asked for."""
    named = words[words.index("-k") + 1] if "-k" in words else ""
    marked = words[words.index("-m") + 1] if "-m" in words else ""
    for word in words:
        if word in {named, marked} or word.startswith("-"):
            continue
        place = ROOT / word.partition("::")[0]
        if not place.exists():
            yield f"there is no {word}"
        elif place.is_file() and named and named not in place.read_text(encoding="utf-8"):
            yield f"{word} has no test {named!r}"


def refusal_pip(words: Sequence[str]) -> Iterator[str]:
    """An extra that paceline does not have."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"(?:\.|paceline)\[([\w,-]+)\]", " ".join(words)):
        for extra in extras.split(","):
            if extra not in project["optional-dependencies"]:
                yield f"paceline has no extra {extra!r}"
