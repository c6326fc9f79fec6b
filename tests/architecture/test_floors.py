"""A module imports its own room and floors strictly below; nobody imports in a circle."""

from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.house import (
    Module,
    assert_clean,
    complaints,
    imports,
    modules,
    planted,
)

# Rooms of one floor never import each other: they meet in messages.py.
FLOORS = (
    ("errors", "lazy_names"),
    (
        *("ids", "timing", "failpoints", "machine", "torch_compiler"),
        *("codec_names", "row_specs", "table_specs"),
    ),
    ("pace_specs",),
    ("config",),
    ("messages", "events"),
    ("data", "params", "parking", "store", "transport"),
    ("pace",),
    ("coordinator", "trainer", "server", "watch"),
    ("launch",),
    ("forecast",),
    ("testing", "dashboard", "trackers"),
    ("cli",),
    ("",),  # paceline itself
)
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}


def room_of(name: str) -> str:
    """``store`` of ``paceline.store.journal``; empty for ``paceline`` itself."""
    return [*name.split("."), ""][1]


@cache
def known_names() -> frozenset[str]:
    """All modules of the house."""
    return frozenset(module.name for module in modules("src"))


def target_of(name: str) -> str:
    """The module of an imported name: ``paceline.ids`` of ``paceline.ids.Window``."""
    while name not in known_names():
        name = name.rpartition(".")[0]
    return name


def edges(module: Module) -> Iterator[tuple[str, int]]:
    """The paceline modules that a module imports, with the line."""
    for name, line in imports(module):
        if name.split(".")[0] == "paceline":
            yield target_of(name), line


def floors_broken(module: Module) -> Iterator[str]:
    """Imports that do not go down."""
    here = room_of(module.name)
    if here not in FLOOR:
        yield module.at(1, f"room {here!r} has no floor: give it one in FLOORS, or move")
        return
    for target, line in edges(module):
        there = room_of(target)
        if there != here and FLOOR.get(there, len(FLOORS)) >= FLOOR[here]:
            yield module.at(
                line,
                f"{here or 'paceline'} (floor {FLOOR[here]}) imports {target}"
                f" (floor {FLOOR.get(there, '?')}): declare a Protocol here for what is"
                " needed, or meet in messages.py",
            )


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph, its first name repeated at the end; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_imports_go_to_floors_strictly_below() -> None:
    assert_clean(floors_broken, "src")


@pytest.mark.parametrize(
    "text",
    [
        "import paceline.trainer.session",
        "from paceline.server import service",
        "from paceline import connect",
        "if TYPE_CHECKING:\n    from paceline.coordinator.state import State",
        "def late():\n    from paceline.launch import connect",
        "from ..trainer import session",
    ],
)
def test_an_import_that_climbs_is_caught(text: str) -> None:
    assert complaints(floors_broken, [planted(text, "paceline.pace.planted")])


def test_rooms_of_one_floor_that_import_each_other_are_caught() -> None:
    module = planted("from paceline.params import blocks", "paceline.store.planted")
    assert complaints(floors_broken, [module])


def test_a_room_without_a_floor_is_caught() -> None:
    assert complaints(floors_broken, [planted("", "paceline.attic.planted")])


def test_an_import_that_goes_down_is_no_complaint() -> None:
    module = planted("from paceline.ids import Window", "paceline.pace.planted")
    assert not complaints(floors_broken, [module])


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        module.name: {target for target, _ in edges(module)} for module in modules("src")
    }
    assert not (found := circle(graph)), " -> ".join(found)


def test_a_circle_is_caught() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
