"""The page of first changes is followed to the letter, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first-change.md").read_text(encoding="utf-8")
STOP = re.compile(r"^### \d+\. `([^`]+)`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(diff|python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w./-]+)`")
LEFT_BEHIND = (".git", ".venv", ".hypothesis", "__pycache__", "runs", "build", "*.egg-info")
PYTHON = ".venv/bin/python"
LIMIT_S = 280


class Stop(NamedTuple):
    """A file of a change, and what becomes of it."""

    path: str
    kind: str
    text: str


def stops(section: str) -> Iterator[Stop]:
    """The files of a change, in the order of the page."""
    for path, body in STOP.findall(section):
        [(kind, text)] = BLOCK.findall(body)
        yield Stop(path, kind, text)


def commands(section: str) -> list[list[str]]:
    """What a section tells to run."""
    lines = [
        line
        for kind, text in BLOCK.findall(section)
        if kind == "sh"
        for line in text.splitlines()
    ]
    return [line.split() for line in lines]


def sections() -> dict[str, str]:
    """{title: text}."""
    parts = re.split(r"^## (.+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def changed(text: str, hunks: str) -> str:
    """A file after a block of the page: each hunk has one place."""
    lines = text.splitlines()
    for hunk in hunks.split("@@\n"):
        told = hunk.splitlines()
        before = [line[1:] for line in told if not line.startswith("+")]
        after = [line[1:] for line in told if not line.startswith("-")]
        size = len(before)
        at = [n for n in range(len(lines)) if lines[n : n + size] == before]
        assert len(at) == 1, f"found {len(at)} times:\n{hunk}"
        lines[at[0] : at[0] + size] = after
    return "\n".join(lines) + "\n"


def contents(root: Path) -> dict[str, bytes]:
    """{path: bytes} of what a change may touch."""
    folders = [root / name for name in ("src", "tests", "docs")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in [*files, root / "CHANGELOG.md"]
        if not {"__pycache__", "paceline.egg-info"} & set(path.parts)  # of who installs it
    }


def run(command: list[str], root: Path) -> None:
    assert command[0] == PYTHON
    done = subprocess.run(
        [sys.executable, *command[1:]],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with both changes, and the commands between that write files."""
    ignored = shutil.ignore_patterns(*LEFT_BEHIND, ".*_cache")
    root = tmp_path_factory.mktemp("clone") / "paceline"
    shutil.copytree(ROOT, root, ignore=ignored)
    for section in sections().values():
        for path, kind, text in stops(section):
            target = root / path
            is_new = kind == "python"
            assert target.exists() != is_new, path
            target.write_text(text if is_new else changed(target.read_text(), text))
        for command in commands(section):
            if "pytest" not in command:
                run(command, root)
    return root


def told() -> Iterator[object]:
    """The sections; the rules of the house are looked at in this house, too."""
    for title in sections():
        is_twice = title == "The rules of the house"
        yield pytest.param(title, marks=pytest.mark.soak) if is_twice else title


@pytest.mark.around
@pytest.mark.slow
def test_the_files_that_change_are_those_that_the_page_names(house: Path) -> None:
    before, after = contents(ROOT), contents(house)
    differ = {path for path in after if before.get(path) != after[path]}
    told = {stop.path for section in sections().values() for stop in stops(section)}
    assert told <= differ
    named = set(NAMED.findall(PAGE))
    assert not {p for p in differ if p not in named and str(Path(p).parent) not in named}
    assert before.keys() <= after.keys()


@pytest.mark.around
@pytest.mark.slow
@pytest.mark.parametrize("title", list(told()))
def test_what_the_page_tells_to_run_passes(house: Path, title: str) -> None:
    tests = [command for command in commands(sections()[title]) if "pytest" in command]
    assert tests
    for command in tests:
        run(command, house)


def test_a_place_that_is_not_there_or_is_there_twice_is_caught() -> None:
    assert changed("a\nb\nc\n", " a\n+x\n@@\n-c\n+d\n") == "a\nx\nb\nd\n"
    for text in ("b\n", "a\na\n"):
        with pytest.raises(AssertionError, match="times"):
            changed(text, " a\n+x\n")
