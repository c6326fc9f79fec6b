"""Reads the house as text: its files, what they import, what they refer to.

Nothing here imports paceline: rules are about the source, whether it runs or not. A rule
is a function from a `Module` to complaints (``path:line: what``), so that a test can
apply it to every module and to a planted one that must be caught.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("src", "tests", "examples", "benchmarks", "tools")


class Module(NamedTuple):
    """One source file, read and parsed."""

    name: str  # as it is imported, e.g. "paceline.store.journal"
    path: str  # relative to the repository
    text: str
    tree: ast.Module

    def at(self, line: int, text: str) -> str:
        return f"{self.path}:{line}: {text}"


class Rule(Protocol):
    """Says what is wrong with a module, a line for each complaint."""

    __name__: str

    def __call__(self, module: Module, /) -> Iterable[str]: ...


class Reference(NamedTuple):
    """A dotted name, written out through the import aliases of its module."""

    name: str
    line: int


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """All python files in folders of the repository that exist."""
    return tuple(
        _read(path)
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.is_file()
    )


def planted(text: str, name: str = "paceline.pace.planted") -> Module:
    """A module that is not there, to see a rule at work."""
    path = f"src/{name.replace('.', '/')}.py"
    return Module(name, path, text, ast.parse(text))


def complaints(rule: Rule, found: Iterable[Module]) -> str:
    """What a rule says about modules, a line each; empty when all is well."""
    return "\n".join(line for module in found for line in rule(module))


def assert_clean(rule: Rule, *folders: str) -> None:
    """Fail with the complaints of a rule about every module in folders."""
    found = complaints(rule, modules(*folders))
    assert not found, f"{rule.__name__}:\n{found}"


@cache
def nodes(module: Module) -> tuple[ast.AST, ...]:
    """Everything in a module; walked once for all rules."""
    return tuple(ast.walk(module.tree))


def imports(module: Module) -> Iterator[Reference]:
    """Every import, wherever it stands: ``from a import b`` is ``a.b``."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Reference(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            for alias in node.names:
                yield Reference(f"{origin}.{alias.name}", node.lineno)


def references(module: Module) -> Iterator[Reference]:
    """Every import, and every ``name`` or ``name.attribute`` that is read."""
    yield from imports(module)
    aliases = _aliases(module)
    inner: set[ast.expr] = set()  # the x of an x.y that is spelt out already
    for node in nodes(module):
        if isinstance(node, ast.Attribute):
            inner.add(node.value)
        if isinstance(node, ast.Attribute | ast.Name) and node not in inner:
            name = dotted(node, aliases)
            if name and isinstance(node.ctx, ast.Load):
                yield Reference(name, node.lineno)


def calls(module: Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a dotted name."""
    aliases = _aliases(module)
    for node in nodes(module):
        if isinstance(node, ast.Call) and (name := dotted(node.func, aliases)):
            yield name, node


def dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """``np.random.rand`` as ``numpy.random.rand``; empty for what is no dotted name."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute) and (head := dotted(node.value, aliases)):
        return f"{head}.{node.attr}"
    return ""


def is_within(name: str, parents: Iterable[str]) -> bool:
    """Whether a dotted name is one of the parents or lies in one."""
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


@cache
def _aliases(module: Module) -> dict[str, str]:
    """What the names bound by imports stand for: {local name: dotted name}."""
    found: dict[str, str] = {}
    for node in nodes(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            for alias in node.names:
                found[alias.asname or alias.name] = f"{origin}.{alias.name}"
    return found


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parents = module.name.split(".")
    is_package = module.path.endswith("__init__.py")
    kept = parents[: len(parents) - node.level + is_package]
    return ".".join([*kept, *filter(None, [node.module])])


def _read(path: Path) -> Module:
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    if parts[0] == "src":
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    text = path.read_text(encoding="utf-8")
    return Module(
        ".".join(parts), relative.as_posix(), text, ast.parse(text, str(relative))
    )
