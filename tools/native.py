"""Rewrites structs as plain classes that mypyc knows by their fields.

What msgspec makes of a class is made when a program runs; mypyc, which compiles it before,
sees a foreign object: every field is looked up by name. So the copy that is compiled
(`tools.compiled`) has classes that say the same in words: fields, constructor, equality.
Of these only what lies in a cut's queue is ever encoded.
"""

import ast
import re
from typing import NamedTuple, final

SUPPORT = '''"""What classes in the place of structs have in common."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(struct: T, /, **changes: Any) -> T:
    """The same with other values in some fields."""
    if isinstance(struct, msgspec.Struct):
        return msgspec.structs.replace(struct, **changes)
    fields: tuple[str, ...] = type(struct).__struct_fields__  # type: ignore[attr-defined]
    values = {name: getattr(struct, name) for name in fields}
    return type(struct)(**{**values, **changes})


def encoded(value: Any) -> tuple[object, ...]:
    """What msgspec encodes in the place of a class that it does not know."""
    return tuple([getattr(value, name) for name in type(value).__struct_fields__])


def decoded(kind: Any, values: Any) -> Any:
    """What was encoded."""
    return kind(*map(msgspec.convert, values, kind.__struct_types__))
'''
_IMPORTS = (
    "from typing import ClassVar as _ClassVar; from mypy_extensions import mypyc_attr; "
    "from paceline.native import replace as _replaced\n"
)
_IMPORT_REPLACED = "from paceline.native import replace as _replaced\n"
_IMPORT_REPLACE = "from paceline.native import replace\n"
_REPLACE = re.compile(r"\b(msgspec\.)?structs\.replace\b")
_FRESH = {"{}", "[]", "set()"}  # msgspec makes a new one for each struct


class Field(NamedTuple):
    """One field: its name, type and default, as they are written; None: it has none."""

    name: str
    type: str
    default: str | None


@final
class Rewriter:
    """Rewrites one module after the other; a base must come before what inherits it."""

    def __init__(self, encoded: frozenset[str]) -> None:
        """Classes of these names are encoded, after all: they say the types of fields."""
        self._encoded = encoded
        self._by_keyword: set[str] = set()  # classes whose fields are given by name alone
        self._fields: dict[str, list[Field]] = {"msgspec.Struct": []}  # {class: all}

    def rewrite(self, text: str) -> str:
        """A module with its structs as plain classes."""
        lines = text.splitlines(keepends=True)
        tree = ast.parse(text)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        edits: list[tuple[int, int, str]] = []  # (first line, behind the last, instead)
        for node in sorted(nodes, key=lambda node: node.lineno):
            base = ast.unparse(node.bases[0]) if node.bases else ""
            if base not in self._fields:
                continue
            edits += self._edits(node, base, text, lines)
        for first, behind, instead in sorted(edits, reverse=True):
            lines[first:behind] = [instead]
        return with_replace("".join(lines), _IMPORTS if edits else "")

    def _edits(
        self, node: ast.ClassDef, base: str, text: str, lines: list[str]
    ) -> list[tuple[int, int, str]]:
        own = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        fields = self._fields[base] + [_field(one, text) for one in own]
        self._fields[node.name] = fields
        indent = " " * node.col_offset
        parent = "" if base == "msgspec.Struct" else f"({base})"
        marked = f"{indent}@mypyc_attr(acyclic=True)\n{indent}class {node.name}{parent}:\n"
        first = _first_line(node) - 1
        decorators = "".join(lines[first : node.lineno - 1])
        edits = [(first, _first_line(node.body[0]) - 1, decorators + marked)]
        for one in own:
            name, type_ = ast.unparse(one.target), ast.unparse(one.annotation)
            edits.append(
                (one.lineno - 1, one.end_lineno or 0, f"{indent}    {name}: {type_}\n")
            )
        behind = (own or node.body[:1])[-1].end_lineno or 0
        if base in self._by_keyword or any(k.arg == "kw_only" for k in node.keywords):
            self._by_keyword.add(node.name)
        else:
            self._by_keyword.discard(node.name)  # another module's may have this name
        said = _methods(node.name, fields, keywords_only=node.name in self._by_keyword)
        if node.name in self._encoded:
            types = ", ".join(field.type for field in fields)
            said = f"__struct_types__: _ClassVar[tuple[object, ...]] = ({types},)\n{said}"
        own_repr = any(
            isinstance(n, ast.FunctionDef) and n.name == "__repr__" for n in node.body
        )
        if own_repr:
            said = said[: said.index("def __repr__")]
        said = "".join(f"{indent}    {line}\n" for line in said.splitlines())
        return [*edits, (behind, behind, said)]


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _field(node: ast.AnnAssign, text: str) -> Field:
    default = None if node.value is None else ast.get_source_segment(text, node.value)
    name, type_ = ast.unparse(node.target), ast.unparse(node.annotation)
    if "ClassVar" in type_ or "lambda" in (default or ""):
        raise SystemExit(f"{name}: {type_} = {default}: no field that can be written out")
    return Field(name, type_, default)


def _methods(name: str, fields: list[Field], *, keywords_only: bool) -> str:
    if not fields:
        return "__struct_fields__: _ClassVar[tuple[str, ...]] = ()"
    star = ["*"] if keywords_only else []
    takes, sets = [], []
    for field in fields:
        fresh = _fresh(field.default)
        if fresh is not None:
            takes.append(f"{field.name}: {field.type} | None = None")
            sets.append(
                f"self.{field.name} = {fresh} if {field.name} is None else {field.name}"
            )
        else:
            default = "" if field.default is None else f" = {field.default}"
            takes.append(f"{field.name}: {field.type}{default}")
            sets.append(f"self.{field.name} = {field.name}")
    names = [field.name for field in fields]
    equal = " and ".join(f"self.{n} == other.{n}" for n in names)
    values = ", ".join(f"self.{n}" for n in names)
    shown = ", ".join(f"{n}={{self.{n}!r}}" for n in names)
    return "\n".join(
        (
            f"__struct_fields__: _ClassVar[tuple[str, ...]] = {(*names,)!r}",
            f"def __init__(self, {', '.join(star + takes)}) -> None:",
            *(f"    {one}" for one in sets),
            "def __eq__(self, other: object) -> bool:",
            f"    return isinstance(other, {name}) and {equal}",
            "def __hash__(self) -> int:",
            f"    return hash(({values},))",
            "def __repr__(self) -> str:",
            f'    return f"{name}({shown})"',
        )
    )


def _fresh(default: str | None) -> str | None:
    """What makes a default anew, if it must be."""
    if default in _FRESH:
        return default
    if default is not None and default.startswith("msgspec.field(default_factory="):
        return (
            default.removeprefix("msgspec.field(default_factory=").removesuffix(")") + "()"
        )
    return None


def with_replace(text: str, imports: str = "") -> str:
    """A module that replaces fields of structs and of what is in their place alike."""
    text = text.replace("from msgspec.structs import replace\n", _IMPORT_REPLACE)
    text, count = _REPLACE.subn("_replaced", text)
    if count and not imports:
        imports = _IMPORT_REPLACED
    if not imports:
        return text
    tree = ast.parse(text)
    first = next(n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom))
    lines = text.splitlines(keepends=True)
    lines.insert(first.lineno - 1, imports)
    return "".join(lines)
