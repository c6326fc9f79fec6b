"""What the pages quote is there: messages of errors, commands with their options, paces."""

import ast
import re
from collections.abc import Iterator

import pytest
import typer

from paceline.cli.main import COMMANDS, app_of
from paceline.config import parse_pace
from paceline.errors import UsageError
from tests.architecture.house import ROOT
from tests.architecture.test_documents import documents

GAP = "\0"  # where a message has a value
QUOTED = re.compile(r"`([^`]+)`")
FIRST_CELL = re.compile(r"^\| (.*?) \|", re.MULTILINE)
# Values that a page makes up: 'x', N, 60, train.py, push=2, ValueError; or leaves out.
MADE_UP = re.compile(
    r"\.\.\.|'[^']*'|\S+=\S+|[<>]=|\S*\d\S*|\S*\.py\b|\b[A-Z]+[a-z]*[A-Z]?\w*"
)
OF_TYPER = {"No such option", "No such command", "Missing argument", "Invalid value"}
COMMAND = re.compile(r"(?:^|`|&& )paceline ([a-z][^`\n]*)", re.MULTILINE)
PACE = re.compile(r"--pace[ =]([a-z][\w:=,.%-]*)")
PLACEHOLDERS = {"sync:codec=C"}  # in the log of experiments
SAID_IN_SCRIPTS = {"allreduce"}  # a page says how `--pace` refuses it


def strings(tree: ast.AST) -> Iterator[str]:
    """What a module may say, with gaps where values go."""
    within = {
        id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (v.value if isinstance(v, ast.Constant) else GAP for v in node.values)
            yield "".join(map(str, pieces))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in within
        ):
            yield re.sub(r"\{[\w!]*\}", GAP, node.value)


def all_said() -> str:
    """Everything that the program may say, in one text."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py"))
    return "\n".join(" ".join(said.split()) for tree in trees for said in strings(tree))


def runs_of_words(message: str) -> list[list[str]]:
    """What a quoted message has between made-up values and marks, three words or more."""
    pieces = (p for piece in MADE_UP.split(message) for p in re.split(r"[:,;] ", piece))
    runs = [piece.strip(" :,;()").split() for piece in pieces]
    return [words for words in runs if len(words) > 2]


def is_said(words: list[str], said: str) -> bool:
    """Whether a run is said somewhere; its first and last word may be a value."""
    shorter = (words, words[1:], words[:-1], words[1:-1])
    return any(" ".join(part) in said for part in shorter if len(part) > 1)


def test_quoted_errors_are_those_of_the_program() -> None:
    page, said = (ROOT / "docs" / "errors.md").read_text(), all_said()
    quoted = {m for cell in FIRST_CELL.findall(page) for m in QUOTED.findall(cell)}
    unknown = [
        message
        for message in sorted(quoted - OF_TYPER)
        if not all(is_said(words, said) for words in runs_of_words(message))
    ]
    assert not unknown, "nothing in src says:\n" + "\n".join(unknown)


def test_an_error_that_is_not_said_any_more_is_caught() -> None:
    assert runs_of_words("batches: workers are not made yet") == [
        ["workers", "are", "not", "made", "yet"]
    ]
    said = "\n".join(strings(ast.parse('f"{call}: no workers of {n} are there yet"')))
    assert not is_said(["workers", "are", "not", "made", "yet"], said)
    assert is_said(["no", "workers", "of"], said)


def taken() -> dict[str, set[str]]:
    """{command: its options}."""
    found = {}
    for name, command in typer.main.get_command(app_of(COMMANDS)).commands.items():  # type: ignore[attr-defined]  # a group has them
        inner = getattr(command, "commands", None)
        named = (
            {name: command}
            if inner is None
            else {f"{name} {k}": c for k, c in inner.items()}
        )
        for full, one in named.items():
            found[full] = {option for p in one.params for option in p.opts} | {"--help"}
    return found


def wrong_commands(page: str, options: dict[str, set[str]]) -> Iterator[str]:
    """Commands and options of a page that the program does not take."""
    for line in COMMAND.findall(page.replace("\\\n", " ")):
        # What follows a script, a module, or two dashes belongs to that.
        words = re.split(r" #| -- |\S+\.py\b| -m ", line)[0].split()
        name = next((n for n in (" ".join(words[:2]), words[0]) if n in options), None)
        if name is None:
            yield line
            continue
        for word in words:
            if word.startswith("--") and word.rstrip(".,);") not in options[name]:
                yield f"{line}: {word}"


def test_commands_on_the_pages_are_taken() -> None:
    options = taken()
    wrong = [
        f"{path.relative_to(ROOT)}: paceline {told}"
        for path in documents()
        for told in wrong_commands(path.read_text(), options)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_command_that_is_not_taken_is_caught() -> None:
    page = "`paceline run --warp 3 train.py --lr 1`\n\npaceline stop\n"
    assert list(wrong_commands(page, {"run": {"--trainers"}})) == [
        "run --warp 3 train.py --lr 1: --warp",
        "stop",
    ]


def test_paces_on_the_pages_are_taken() -> None:
    for path in documents():
        told = set(PACE.findall(path.read_text()))
        for pace in told - PLACEHOLDERS - SAID_IN_SCRIPTS:
            try:
                parse_pace(pace.rstrip(".,"))
            except UsageError as error:
                pytest.fail(f"{path.relative_to(ROOT)}: --pace {pace}: {error}")
