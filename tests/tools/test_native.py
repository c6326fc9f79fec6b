"""Structs as plain classes: what they were asked for, in the words that mypyc reads."""

import types

import pytest

pytest.importorskip("mypy_extensions", reason="mypy is not installed (dev)")

from tools.native import SUPPORT, Rewriter, with_replace

MODULE = """
from typing import NamedTuple
import msgspec

class Base(msgspec.Struct, frozen=True, kw_only=True):
    \"\"\"Base of all.\"\"\"

class Sent(Base, frozen=True):
    \"\"\"What is sent.\"\"\"

    number: int  # of the push
    sizes: dict[int, int] = msgspec.field(default_factory=dict)
    tags: list[str] = []

    @property
    def is_first(self) -> bool:
        return self.number == 1

class Pair(msgspec.Struct):
    left: int
    right: int = 2

    def __repr__(self) -> str:
        return "a pair"

class Other(NamedTuple):
    place: int

def moved(sent: Sent) -> Sent:
    return msgspec.structs.replace(sent, number=7)
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    support = types.ModuleType("paceline.native")
    exec(SUPPORT, vars(support))
    monkeypatch.setitem(__import__("sys").modules, "paceline.native", support)
    made = types.ModuleType("made")
    exec(Rewriter(frozenset()).rewrite(MODULE), vars(made))
    return made


def test_fields_are_given_as_they_were(module: types.ModuleType) -> None:
    assert module.Sent(number=1).sizes == {}
    assert module.Sent(number=1).is_first
    assert (module.Pair(1).left, module.Pair(1).right) == (1, 2)
    with pytest.raises(TypeError):
        module.Sent(1)


def test_a_default_that_changes_is_nobody_elses(module: types.ModuleType) -> None:
    one, other = module.Sent(number=1), module.Sent(number=1)
    one.tags.append("a")
    one.sizes[0] = 1
    assert (other.tags, other.sizes) == ([], {})


def test_alike_are_equal_and_look_alike(module: types.ModuleType) -> None:
    assert module.Sent(number=1) == module.Sent(number=1) != module.Sent(number=2)
    assert module.Pair(1) != module.Sent(number=1)
    assert repr(module.Sent(number=1)) == "Sent(number=1, sizes={}, tags=[])"
    assert repr(module.Pair(1)) == "a pair"
    assert hash(module.Pair(1)) == hash(module.Pair(1, 2))


def test_fields_are_replaced_in_both(module: types.ModuleType) -> None:
    assert module.moved(module.Sent(number=1, tags=["a"])).tags == ["a"]
    assert module.moved(module.Sent(number=1)).number == 7


@pytest.mark.parametrize(
    "field",
    ["kinds: ClassVar[int] = 1", "n: int = msgspec.field(default_factory=lambda: 1)"],
)
def test_what_cannot_be_written_out_is_refused_by_name(field: str) -> None:
    with pytest.raises(SystemExit, match=field.split(":")[0]):
        Rewriter(frozenset()).rewrite(
            f"import msgspec\nclass A(msgspec.Struct):\n    {field}\n"
        )


def test_what_is_no_struct_stays_as_it_is(module: types.ModuleType) -> None:
    assert module.Other(3)._fields == ("place",)
    assert with_replace("import msgspec\n") == "import msgspec\n"
