"""How a file looks: its length, what it documents, which kinds of classes it has."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.architecture.house import (
    CODE_FOLDERS,
    Module,
    assert_clean,
    complaints,
    modules,
    nodes,
    planted,
)

MAX_LINES = 400
MAX_FUNCTION_LINES = 60
FUNCTION_FOLDERS = ("src", "tests", "benchmarks", "tools")

# Classes that are plain data, or named for what went wrong, need no mark.
PLAIN_BASES = {
    "BaseException",
    "Enum",
    "Exception",
    "IntEnum",
    "IntFlag",
    "NamedTuple",
    "StrEnum",
    "Struct",
    "TypedDict",
}
ABSTRACT_BASES = {"ABC", "ABCMeta", "Protocol"}


def too_long(module: Module) -> Iterator[str]:
    """Files with two ideas in them."""
    lines = len(module.text.splitlines())
    if lines > MAX_LINES:
        yield module.at(
            lines, f"{lines} lines, at most {MAX_LINES}: which two things live here?"
        )


def long_functions(module: Module) -> Iterator[str]:
    """Functions with too much in them to be read at once."""
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0].lineno if _is_command(node) else node.lineno
            lines = (node.end_lineno or first) - first + 1
            if lines > MAX_FUNCTION_LINES:
                said = f"{node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
                yield module.at(node.lineno, said)


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its signature is a command line, with a few lines for each option."""
    arguments = [*node.args.args, *node.args.kwonlyargs]
    return any("typer." in ast.unparse(one.annotation or one) for one in arguments)


def undocumented(module: Module) -> Iterator[str]:
    """Public modules, classes, functions and methods without a docstring."""
    if not ast.get_docstring(module.tree):
        yield module.at(1, "the module says nothing about itself")
    yield from _undocumented_in(module, module.tree, "")


def _undocumented_in(
    module: Module, scope: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[str]:
    for node in scope.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_"):
            continue
        marks = {_last_name(mark) for mark in node.decorator_list}
        if not ast.get_docstring(node) and not marks & {"overload", "override", "setter"}:
            yield module.at(
                node.lineno, f"{prefix}{node.name} promises nothing: no docstring"
            )
        if isinstance(node, ast.ClassDef):
            yield from _undocumented_in(module, node, f"{prefix}{node.name}.")


def open_classes(module: Module) -> Iterator[str]:
    """Classes that are neither abstract nor final nor plain data."""
    parents = _house_parents() | _parents([module])
    for node in nodes(module):
        if isinstance(node, ast.ClassDef) and not _is_closed(node, parents):
            yield module.at(
                node.lineno,
                f"class {node.name} is neither abstract nor final: mark it @final, and add"
                " behaviour by wrapping",
            )


def _is_closed(node: ast.ClassDef, parents: dict[str, set[str]]) -> bool:
    if any(_last_name(mark) == "final" for mark in node.decorator_list):
        return True
    bases = {_last_name(base) for base in node.bases}
    bases |= {_last_name(keyword.value) for keyword in node.keywords}
    is_abstract = any(
        _last_name(mark) == "abstractmethod"
        for inner in node.body
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
        for mark in inner.decorator_list
    )
    return is_abstract or bool(bases & ABSTRACT_BASES) or _is_plain(bases, parents)


def _is_plain(bases: set[str], parents: dict[str, set[str]]) -> bool:
    todo, seen = list(bases), set[str]()
    while todo:
        name = todo.pop()
        if name in PLAIN_BASES or name.endswith(("Error", "Warning")):
            return True
        todo.extend(parents.get(name, set()) - seen)
        seen.add(name)
    return False


@cache
def _house_parents() -> dict[str, set[str]]:
    return _parents(modules("src"))


def _parents(found: Iterable[Module]) -> dict[str, set[str]]:
    return {
        node.name: {_last_name(base) for base in node.bases}
        for module in found
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
    }


def _last_name(node: ast.expr) -> str:
    """``Protocol`` of ``typing.Protocol[T]``; ``final`` of ``@typing.final``."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_no_file_passes_400_lines() -> None:
    assert_clean(too_long, *CODE_FOLDERS)


def test_a_long_file_is_caught() -> None:
    assert complaints(too_long, [planted("pass\n" * (MAX_LINES + 1))])
    assert not complaints(too_long, [planted("pass\n" * MAX_LINES)])


def test_a_function_is_read_at_once() -> None:
    assert_clean(long_functions, *FUNCTION_FOLDERS)


def test_a_long_function_is_caught() -> None:
    text = "def f():\n" + "    pass\n" * MAX_FUNCTION_LINES
    assert list(long_functions(planted(text)))
    assert not list(long_functions(planted(text.removesuffix("    pass\n"))))


def test_the_options_of_a_command_do_not_count() -> None:
    text = "def f(a: Annotated[\n    int, typer.Option()]\n):\n"
    text += "    pass\n" * MAX_FUNCTION_LINES
    assert not list(long_functions(planted(text)))
    assert list(long_functions(planted(text + "    pass\n")))


def test_everything_public_has_a_docstring() -> None:
    assert_clean(undocumented, "src")


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        '"""Module."""\ndef public(): pass',
        '"""Module."""\nclass Public: pass',
        '"""Module."""\nclass Public:\n    """Class."""\n    def method(self): pass',
    ],
)
def test_a_missing_docstring_is_caught(text: str) -> None:
    assert complaints(undocumented, [planted(text)])


def test_private_and_dunder_names_need_no_docstring() -> None:
    text = '"""Module."""\ndef _private(): pass\nclass _Private: pass\n'
    assert not complaints(undocumented, [planted(text)])


def test_every_class_is_abstract_or_final() -> None:
    assert_clean(open_classes, "src")


@pytest.mark.parametrize("text", ["class Open: pass", "class Open(list): pass"])
def test_an_open_class_is_caught(text: str) -> None:
    assert complaints(open_classes, [planted(text)])


@pytest.mark.parametrize(
    "text",
    [
        "@final\nclass Closed: pass",
        "@typing.final\nclass Closed(Other): pass",
        "class Abstract(ABC): pass",
        "class Abstract(Protocol[T]): pass",
        "class Abstract:\n    @abstractmethod\n    def f(self): ...",
        "class Plain(msgspec.Struct, frozen=True): pass",
        "class First(PacelineError): pass\nclass Lost(First): pass",
        "class Late(Message): pass",
    ],
)
def test_a_closed_class_is_no_complaint(text: str) -> None:
    assert not complaints(open_classes, [planted(text)])
