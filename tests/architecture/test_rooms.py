"""A room has an inside: few files a folder, sub-rooms in an order, each with a face.

A **sub-room** is a folder inside a room. From outside it is entered by its **face**, its
``__init__``, or by its one **vocabulary**, a file of plain types that travel; and nobody
enters from below. Inside its own folder a file names its neighbours directly.
``python -m tests.architecture.test_rooms`` prints floors and arrows of every room.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.house import (
    Module,
    assert_clean,
    complaints,
    imports,
    modules,
    nodes,
    planted,
)
from tests.architecture.test_floors import circle, edges, known_names, target_of

MAX_FILES = 14
Floors = tuple[tuple[str, ...], ...]

# The inside of each room, lowest first: files of its root, and its sub-rooms. What stands
# on one floor does not know each other.
INSIDE: dict[str, Floors] = {
    "paceline.trainer": (
        ("acts", "verdicts", "encoding"),
        ("holdings", "model"),
        ("protocol",),
        ("client",),
        ("rows",),
        ("tensors",),
        ("engine",),
        ("loop", "peers"),
        ("evaluator", "metric_states", "predictions"),
        ("membership",),
        ("seat",),
        ("group", "evaluations"),
        ("tables", "seating"),
        ("share",),
        ("profiling",),
        ("session",),
    ),
    "paceline.coordinator": (
        ("durable", "full_disk"),
        ("ledgers", "stored_values"),
        ("decisions",),
        ("state",),
        ("inbox", "storage"),
        ("service",),
    ),
    "paceline.server": (
        ("requests", "decisions", "locks"),
        ("slots",),
        ("held_pushes", "snapshots"),
        ("standing",),
        ("answers",),
        ("control",),
        ("service",),
    ),
    "paceline.launch": (
        ("job",),
        ("processes",),
        ("supervise", "engines", "guests", "manifests"),
        ("hosts",),
        ("doctor",),
        ("local", "embedded", "parting", "carried", "echo"),
        ("own_job", "torchrun"),
        ("connect",),
    ),
    "paceline.transport": (
        ("address", "frames"),
        ("handshake", "service", "shared_memory"),
        ("connection", "greeting", "mailbox"),
        ("listener", "patience", "requests"),
        ("streams",),
        ("inprocess",),
        ("opening",),
    ),
    "paceline.store": (("blobs", "journal"), ("cuts",), ("export", "listing", "tensors")),
    "paceline.data": (
        ("source", "split", "order", "cells", "sets", "not_data", "same_stage"),
        ("files", "map_style", "ahead"),
        ("opening",),
    ),
    "paceline.params.rows": (
        ("compiled",),
        ("combining", "distinct", "id_map", "initial", "optimizers", "snapshot"),
        ("following", "row_store"),
        ("table",),
        ("values",),
    ),
    "paceline.forecast": (
        ("agenda", "driver", "gauge", "models"),
        ("fitting", "plan"),
        ("coordinator",),
        ("server",),
        ("trainer",),
        ("launcher",),
        ("job",),
        ("advice", "show"),
    ),
}

# Benchmarks stand on floors, too: each room below those that use it.
BENCHMARK_FLOORS: Floors = (
    ("harness",),
    ("transport",),
    ("ctr", "dense", "pace", "recovery", "scale"),
    ("tables",),
    ("__main__",),
)

# Plain types that travel, one file of a sub-room: imported by name, as `messages` is.
VOCABULARIES = {
    "paceline.coordinator.durable": "outcomes",
    "paceline.coordinator.ledgers": "effects",
    "paceline.server.decisions": "verdicts",
    "paceline.server.requests": "contents",
    "paceline.trainer.rows": "routing",
}


@cache
def faces() -> dict[str, frozenset[str]]:
    """{sub-room: the names that its face offers}."""
    return {
        module.name: offered(module)
        for module in modules("src")
        if module.path.endswith("__init__.py") and module.name.count(".") >= 2
    }


def offered(module: Module) -> frozenset[str]:
    """What ``__all__`` of a face lists; without one, all that it imports from the house."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    names = (name for name, _ in imports(module))
    lent = {name for name in names if _is_in(name, module.name.partition(".")[0])}
    return frozenset(
        name.rpartition(".")[2] for name in lent - {"paceline.lazy_names.loader"}
    )


def lent(module: Module) -> Iterator[str]:
    """Names that are imported from a file that has them from elsewhere, and is no face."""
    for node in nodes(module):
        if not isinstance(node, ast.ImportFrom) or node.module not in own_names():
            continue
        for alias in node.names:
            if alias.name not in own_names()[node.module]:
                yield module.at(
                    node.lineno, f"{node.module} has {alias.name} from elsewhere"
                )


@cache
def own_names() -> dict[str, frozenset[str]]:
    """{file that is no face: the names that it makes, or says that it lends}."""
    found: dict[str, set[str]] = {}
    for module in modules("src"):
        if module.path.endswith("__init__.py"):
            continue
        names = found[module.name] = set()
        for node in nodes(module):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.alias) and node.asname == node.name:
                names.add(node.name)
    return {name: frozenset(names) for name, names in found.items()}


def entered_past_the_face(module: Module) -> Iterator[str]:
    """Imports out of a sub-room by another way than its face or its vocabulary."""
    for name, line in imports(module):
        target = target_of(name) if name.startswith("paceline.") else ""
        for face, names in faces().items():
            if not f"{target}.".startswith(f"{face}.") or _is_in(module.name, face):
                continue
            vocabulary = f"{face}.{VOCABULARIES.get(face)}"
            wanted = name.removeprefix(f"{face}.")
            if target != vocabulary and wanted not in names and name != face:
                yield module.at(line, f"{name}: {face} offers {sorted(names)}")


def climbs(module: Module) -> Iterator[str]:
    """Imports inside a room that do not go down."""
    for room, floors in INSIDE.items():
        height = {unit: number for number, units in enumerate(floors) for unit in units}
        if not _is_in(module.name, room) or module.name == room:
            continue
        here = _unit(module.name, room)
        if here not in height:
            yield module.at(1, f"{here} has no floor in {room}: give it one in INSIDE")
            continue
        for target, line in edges(module):
            if _is_in(target, room) and target != room:
                there = _unit(target, room)
                if there != here and height.get(there, len(floors)) >= height[here]:
                    yield module.at(
                        line,
                        f"{room}: {here} (floor {height[here]}) imports {there} (floor"
                        f" {height.get(there, '?')})",
                    )


def benchmark_climbs(module: Module) -> Iterator[str]:
    """Imports of a benchmark's module that do not go down."""
    height = {unit: n for n, units in enumerate(BENCHMARK_FLOORS) for unit in units}
    here = _unit(module.name, "benchmarks")
    if here not in height:
        yield module.at(1, f"{here} has no floor: give it one in BENCHMARK_FLOORS")
        return
    for name, line in imports(module):
        there = _unit(name, "benchmarks") if _is_in(name, "benchmarks") else here
        if there != here and height.get(there, 0) >= height[here]:
            yield module.at(line, f"{here} (floor {height[here]}) imports {name}")


def crowded(*folders: str) -> dict[str, int]:
    """{folder: its files}, where there are too many."""
    files: dict[str, int] = {}
    for module in modules(*folders):
        folder = module.path.rpartition("/")[0]
        files[folder] = files.get(folder, 0) + 1
    return {folder: count for folder, count in files.items() if count > MAX_FILES}


def _is_in(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def _unit(name: str, room: str) -> str:
    return name.removeprefix(f"{room}.").partition(".")[0]


def arrows(room: str) -> set[tuple[str, str]]:
    """Who knows whom among the files and sub-rooms of a room."""
    found = {
        (_unit(module.name, room), _unit(target, room))
        for module in modules("src")
        if _is_in(module.name, room) and module.name != room
        for target, _ in edges(module)
        if _is_in(target, room) and target != room
    }
    return {(here, there) for here, there in found if here != there}


def test_a_folder_holds_few_files() -> None:
    assert not crowded("src", "benchmarks"), "which rooms live there?"


def test_benchmarks_stand_on_floors() -> None:
    found = [module for module in modules("benchmarks") if module.name != "benchmarks"]
    assert not complaints(benchmark_climbs, found)
    rooms = {room for rooms in BENCHMARK_FLOORS for room in rooms}
    assert rooms == {_unit(module.name, "benchmarks") for module in found}


def test_a_benchmark_that_climbs_is_caught() -> None:
    text = "from benchmarks.dense.loops import Plan"
    assert complaints(benchmark_climbs, [planted(text, "benchmarks.harness.planted")])
    assert complaints(benchmark_climbs, [planted(text, "benchmarks.ctr.planted")])
    assert not complaints(benchmark_climbs, [planted(text, "benchmarks.tables.planted")])
    assert complaints(benchmark_climbs, [planted("", "benchmarks.planted")])


def test_a_sub_room_is_entered_by_its_face() -> None:
    assert_clean(entered_past_the_face, "src")


@pytest.mark.parametrize(
    "text",
    [
        "from paceline.trainer.holdings.leases import Leases",
        "from paceline.trainer.holdings import leases",
        "import paceline.trainer.holdings.leases",
        "def late():\n    from paceline.params.rows.table import RowTable",
    ],
)
def test_a_way_past_the_face_is_caught(text: str) -> None:
    assert complaints(entered_past_the_face, [planted(text, "paceline.trainer.session")])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from paceline.trainer.holdings import Leases", "paceline.trainer.session"),
        ("from paceline.trainer.rows.routing import Route", "paceline.trainer.session"),
        ("from paceline.trainer.rows.replica import Replica", "paceline.trainer.rows.own"),
    ],
)
def test_the_face_the_vocabulary_and_neighbours_are_no_complaint(
    text: str, name: str
) -> None:
    assert not complaints(entered_past_the_face, [planted(text, name)])


def test_a_name_comes_from_where_it_is_made_or_from_a_face() -> None:
    assert_clean(lent, "src")


def test_a_name_that_is_lent_is_caught() -> None:
    text = "from paceline.store.journal import StoreFull"
    assert complaints(lent, [planted(text)])
    assert not complaints(lent, [planted(text.replace("StoreFull", "Journal"))])


def test_sub_rooms_stand_in_an_order() -> None:
    assert_clean(climbs, "src")


def test_a_sub_room_that_climbs_is_caught() -> None:
    text = "from paceline.trainer.engine import TrainerEngine"
    assert complaints(climbs, [planted(text, "paceline.trainer.rows.planted")])
    assert not complaints(climbs, [planted(text, "paceline.trainer.loop.planted")])
    assert complaints(climbs, [planted("", "paceline.trainer.attic.planted")])


@pytest.mark.parametrize("room", INSIDE)
def test_all_that_has_a_floor_is_there(room: str) -> None:
    units = {unit for units in INSIDE[room] for unit in units}
    assert units == {_unit(n, room) for n in known_names() if _is_in(n, room) and n != room}


@pytest.mark.parametrize("room", INSIDE)
def test_no_circle_among_sub_rooms(room: str) -> None:
    graph: dict[str, set[str]] = {}
    for here, there in arrows(room):
        graph.setdefault(here, set()).add(there)
    assert not (found := circle(graph)), " -> ".join(found)


def test_every_vocabulary_is_there_and_needed() -> None:
    used = {
        target
        for module in modules("src")
        for target, _ in edges(module)
        if not _is_in(module.name, target.rpartition(".")[0])
    }
    for face, name in VOCABULARIES.items():
        assert f"{face}.{name}" in used


def test_a_face_offers_what_somebody_needs() -> None:
    wanted = {name for module in modules("src") for name, _ in imports(module)}
    for face, names in faces().items():
        unused = {name for name in names if f"{face}.{name}" not in wanted}
        assert not unused, f"{face} offers {sorted(unused)} to nobody"


if __name__ == "__main__":
    for room, floors in INSIDE.items():
        drawn = sum(len(units) for units in floors)
        sys.stdout.write(
            f"{room}: {drawn} drawn, {len(floors)} floors, {len(arrows(room))} arrows\n"
        )
