"""Pages for who works on the code name what is there: files, classes, functions, fields."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.house import ROOT, modules, nodes

PAGES = ["states.md"]
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
OUTCOME = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")  # or a message, on an arrow


@cache
def given() -> frozenset[str]:
    """All that src names: what it defines, and what it assigns; ``Class.name``, too."""
    found: set[str] = set()
    for module in modules("src"):
        found.update(_in_scope(module.tree, ""))
        found.update(
            node.attr
            for node in nodes(module)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        )
    return frozenset(found)


def _in_scope(scope: ast.AST, prefix: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
            yield f"{prefix}{node.name}"
            inner = f"{node.name}." if isinstance(node, ast.ClassDef) else prefix
            yield from _in_scope(node, inner)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            for name in (_name_of(target) for target in targets):
                if name:
                    yield from (name, f"{prefix}{name}")
        else:
            yield from _in_scope(node, prefix)


def _name_of(target: ast.expr) -> str:
    """``x`` of ``x`` and of ``self.x``."""
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def unknown(page: str) -> list[str]:
    """What a page puts in backticks, and nothing in src is called."""
    text = FENCED.sub("", page)
    return [name for name in QUOTED.findall(text) if not _is_known(name)]


def _is_known(name: str) -> bool:
    if "/" in name:
        return (ROOT / "src" / "paceline" / name).exists()
    return name.removesuffix("()") in given()


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_is_in_the_code(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert len(QUOTED.findall(FENCED.sub("", page))) > 20
    assert not unknown(page), f"docs/{name} names what src does not have"


def test_happenings_and_waits_of_the_page_about_debugging_are_told() -> None:
    page = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
    told = {
        name for name in QUOTED.findall(FENCED.sub("", page)) if OUTCOME.fullmatch(name)
    }
    waits = set(re.findall(r"`(\w+)`(?:: | and `clock`: )", page)) | {"clock"}
    assert {"TrainerLost", "CutFailed"} <= told
    assert {"members", "round", "lease"} <= waits
    said = "\n".join(module.text for module in modules("src"))
    assert not [n for n in (told - given()) | waits if f'"{n}"' not in said]


def test_outcomes_and_messages_on_the_arrows_are_in_the_code() -> None:
    page = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")
    drawings = "\n".join(FENCED.findall(page))
    arrows = re.findall(r"-->.*?: (.*)", drawings)
    told = {name for arrow in arrows for name in OUTCOME.findall(arrow)}
    assert "LeaseGranted" in told
    said = "\n".join(module.text for module in modules("src"))
    assert not [name for name in told - given() if f'"{name}"' not in said]


NOTE = re.compile(
    r"^\| \[[^]]+\]\(([^)]+)\) \| (stands|replaced by \[|given up)", re.MULTILINE
)


def test_every_design_note_has_its_standing() -> None:
    folder = ROOT / "docs" / "design"
    listed = NOTE.findall((folder / "README.md").read_text(encoding="utf-8"))
    notes = {path.name for path in folder.glob("*.md")} - {"README.md"}
    assert sorted(name for name, _ in listed) == sorted(notes), "docs/design/README.md"
    for name, standing in listed:
        says_so = "\n*Given up" in (folder / name).read_text(encoding="utf-8")  # all of it
        assert says_so == (standing == "given up"), f"{name}: {standing}"


def test_a_name_that_is_not_in_the_code_is_caught() -> None:
    page = (
        "`Queue.pending` `Queue.pendong` `coordinator/attic.py` `restore`\n```\n`x`\n```\n"
    )
    assert unknown(page) == ["Queue.pendong", "coordinator/attic.py"]
