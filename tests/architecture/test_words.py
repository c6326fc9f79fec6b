"""One word for one thing: the words that the house does not use, in names of its own.

Only names that the house gives are looked at (definitions, arguments, assigned names,
files); a call may spell what torch or the standard library calls it.
"""

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.house import (
    CODE_FOLDERS,
    ROOT,
    Module,
    assert_clean,
    complaints,
    modules,
    nodes,
    planted,
)

PAGE = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")


def table(title: str) -> dict[str, str]:
    """The two columns under a title of the page of words."""
    _, _, section = PAGE.partition(f"## {title}\n")
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \|$", section.partition("\n## ")[0], re.MULTILINE
    )
    return dict(rows[1:])  # without the head


FORBIDDEN = table("What we do not say")
FORBIDDEN_IN_FILES = FORBIDDEN | dict.fromkeys(
    ("base", "common", "core", "misc"), "what it is about"
)
ALLOWED = {
    "num_workers",  # DataLoader's own word, in `Session.batches`
    "workers",
    "ranks_per_trainer",  # torch's own word, for processes of a process group
}


# Words that stand for one thing alone: the names of the house that may have them.
OF_ONE_THING = {
    "early": {  # gradients that are at a server before the push that names them
        "EARLY_BYTES",
        "EarlyGradients",
        "EarlySender",
        "PushEarly",
        "_early",
        "answer_early",
        "early",
        "early_gradients",
        "read_early",
        "sends_early",
        "why_not_early",
    },
}


def words(name: str) -> list[str]:
    """``rowChunks`` and ``row_chunks`` are ``row`` and ``chunk``: singular, lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [
        word.lower().removesuffix("s") for word in re.split(r"[^A-Za-z]+", spaced) if word
    ]


def given_names(module: Module) -> Iterator[tuple[str, int]]:
    """Names that a module defines, with their lines."""
    for node in nodes(module):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case _:
                pass


def misnamed(module: Module) -> Iterator[str]:
    """Names with a forbidden word."""
    for name, line in given_names(module):
        for word in words(name) if name not in ALLOWED else ():
            if word in FORBIDDEN:
                yield module.at(line, f"{name}: say {FORBIDDEN[word]}, not {word!r}")


def of_another_thing(module: Module) -> Iterator[str]:
    """Names with a word that stands for another thing."""
    file = module.path.removesuffix(".py").rpartition("/")[2]
    for name, line in [*given_names(module), (file, 1)]:
        for word in words(name):
            if name not in OF_ONE_THING.get(word, {name}):
                yield module.at(line, f"{name}: {word!r} is said of one thing alone")


def misnamed_files(module: Module) -> Iterator[str]:
    """Files and folders with a forbidden word."""
    for word in words(module.path.removesuffix(".py")):
        if word in FORBIDDEN_IN_FILES:
            yield module.at(1, f"the path says {word!r}: say {FORBIDDEN_IN_FILES[word]}")


def test_names_speak_the_words_of_the_house() -> None:
    assert_clean(misnamed, *CODE_FOLDERS)


@pytest.mark.parametrize(
    "text",
    [
        "class TaskManager: pass",
        "def row_chunks(): pass",
        "def f(rank): pass",
        "handlers = []",
        "self.master = 1",
        "import multiprocessing as worker",
        "for chunk in data: pass",
    ],
)
def test_a_forbidden_word_is_caught(text: str) -> None:
    assert complaints(misnamed, [planted(text)])


def test_a_word_of_one_thing_is_said_of_no_other() -> None:
    assert_clean(of_another_thing, "src")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class EndEarly: pass", "paceline.pace.planted"),
        ("is_early = True", "paceline.pace.planted"),
        ("", "paceline.pace.early_stops"),
    ],
)
def test_a_word_that_is_said_of_another_thing_is_caught(text: str, name: str) -> None:
    assert complaints(of_another_thing, [planted(text, name)])
    assert not complaints(of_another_thing, [planted("sends_early = 1")])


def test_words_of_one_thing_are_on_the_page() -> None:
    assert OF_ONE_THING.keys() <= table("What we say").keys()


def test_a_foreign_name_may_be_called() -> None:
    text = (
        "DataLoader(d, num_workers=w)\nsignal.signal(s, handler=f)\nshranked = ranking = 1"
    )
    assert not complaints(misnamed, [planted(text)])


def test_files_speak_the_words_of_the_house() -> None:
    assert_clean(misnamed_files, *CODE_FOLDERS)


@pytest.mark.parametrize(
    "name", ["paceline.utils.a", "paceline.pace.common", "paceline.Core"]
)
def test_a_forbidden_file_name_is_caught(name: str) -> None:
    assert complaints(misnamed_files, [planted("", name)])


def test_the_page_of_words_is_read() -> None:
    assert FORBIDDEN["master"] == "coordinator"
    assert {"trainer", "window", "push, pull"} <= table("What we say").keys()


def test_no_word_is_said_and_not_said() -> None:
    said = {word for entry in table("What we say") for word in entry.split(", ")}
    assert not said & FORBIDDEN.keys()


def test_the_repository_is_where_the_rules_look() -> None:
    assert (ROOT / "pyproject.toml").is_file()
    assert any(module.name == "paceline.errors" for module in modules("src"))


def twice_named(found: Iterable[Module]) -> dict[str, set[str]]:
    """Public classes of one name in several files: {name: files}."""
    places: dict[str, set[str]] = {}
    for module in found:
        for node in nodes(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, set()).add(module.path)
    return {name: files for name, files in places.items() if len(files) > 1}


def test_no_two_public_classes_have_one_name() -> None:
    assert not twice_named(modules("src"))


def test_a_name_that_is_given_twice_is_caught() -> None:
    text = "class Planted: pass"
    assert twice_named([planted(text, "paceline.a.b"), planted(text, "paceline.c.d")])
