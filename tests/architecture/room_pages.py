"""Writes a page for each room from the code: its inside, its files, who imports whom.

::

    python -m tests.architecture.room_pages      writes docs/rooms and docs/images/rooms

Floors and arrows are those that `test_rooms` and `test_floors` hold; what a file is, its
own first line says. Where a folder has no floors written down, units stand as high above
what they import as they must.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache

from tests.architecture.house import ROOT, Module, modules
from tests.architecture.room_drawing import Unit, draw
from tests.architecture.test_floors import FLOORS, edges, room_of
from tests.architecture.test_rooms import INSIDE, arrows, faces

COMMAND = "python -m tests.architecture.room_pages"
MADE_BY = f"*Made from the code by `{COMMAND}`.*"
PAGES, PICTURES = "docs/rooms", "docs/images/rooms"
HOW_TO_READ = (
    "Down a column is all that a unit imports, along a line are all who import it; what "
    "stands between two dashed lines is one floor."
)


@cache
def _by_name() -> dict[str, Module]:
    return {module.name: module for module in modules("src")}


def rooms() -> list[str]:
    """The folders of the house, from the top floor down."""
    names = [room for floor in reversed(FLOORS) for room in floor]
    return [room for room in names if room and is_folder(f"paceline.{room}")]


def is_folder(name: str) -> bool:
    """Whether a name of the house is a package."""
    return name in _by_name() and _by_name()[name].path.endswith("__init__.py")


def said(name: str) -> str:
    """What a module says about itself, as a sentence of Markdown."""
    docstring = ast.get_docstring(_by_name()[name].tree) or ""
    first = " ".join(docstring.partition("\n\n")[0].split()).replace("``", "`")
    return first.removesuffix("::").rstrip(" :")


def inside(folder: str) -> list[str]:
    """The files and sub-rooms of a folder by their full names, in alphabetical order."""
    return [
        name
        for name in sorted(_by_name())
        if name.rpartition(".")[0] == folder and name != folder
    ]


def floors_of(folder: str, known: set[tuple[str, str]]) -> dict[str, int]:
    """{unit: its floor}, as written down; else as low as its imports let it stand."""
    if folder in INSIDE:
        return {unit: at for at, units in enumerate(INSIDE[folder]) for unit in units}
    found: dict[str, int] = {}
    units = [name.rpartition(".")[2] for name in inside(folder)]
    while len(found) < len(units):
        before = len(found)
        for unit in units:
            below = {there for here, there in known if here == unit}
            if unit not in found and below <= found.keys():
                found[unit] = max((found[there] for there in below), default=-1) + 1
        assert len(found) > before, f"{folder}: a circle among {set(units) - found.keys()}"
    return found


def picture(folder: str) -> str:
    """Who imports whom in a folder."""
    known = arrows(folder)
    floors = floors_of(folder, known)
    units = [
        Unit(unit, f"{unit}/" if is_folder(f"{folder}.{unit}") else unit, floor)
        for unit, floor in sorted(floors.items(), key=lambda item: (-item[1], item[0]))
    ]
    return draw(f"Who imports whom in {folder}", units, known)


def house_picture() -> str:
    """Who imports whom among rooms and words of the house."""
    known = {
        (room_of(module.name), room_of(target))
        for module in modules("src")
        for target, _ in edges(module)
    }
    known = {(here, there) for here, there in known if here != there and here and there}
    units = [
        Unit(room, f"{room}/" if is_folder(f"paceline.{room}") else room, floor)
        for floor, names in reversed(list(enumerate(FLOORS)))
        for room in sorted(names)
        if room
    ]
    return draw("Who imports whom in paceline", units, known)


def drawn_folders(room: str) -> list[str]:
    """The folders of a room that are drawn: itself, and what has floors of its own."""
    folder = f"paceline.{room}"
    floored = [name for name in _below(folder) if name in INSIDE]
    return [name for name in (folder, *floored) if arrows(name)]


def _below(folder: str) -> Iterator[str]:
    for name in inside(folder):
        if is_folder(name):
            yield name
            yield from _below(name)


def page(room: str) -> str:
    """The page of a room."""
    folder = f"paceline.{room}"
    drawn = drawn_folders(room)
    lines = [f"# {room}", "", MADE_BY, "", f"`src/paceline/{room}/`: {said(folder)}", ""]
    if folder in drawn:
        lines += [_picture_line(folder), "", HOW_TO_READ, ""]
    lines += _files(folder)
    for name in _below(folder):
        short = name.removeprefix(f"{folder}.").replace(".", "/")
        lines += [f"{'#' * (name.count('.'))} {short}/", "", said(name), ""]
        if offers := sorted(faces().get(name, ())):
            names = ", ".join(f"`{offer}`" for offer in offers)
            lines += [f"Its face offers {names}.", ""]
        if name in drawn:
            lines += [_picture_line(name), ""]
        lines += _files(name)
    return "\n".join(lines).rstrip("\n") + "\n"


def _picture_line(folder: str) -> str:
    name = folder.removeprefix("paceline.")
    return f"![Who imports whom in {name}](../images/rooms/{name}.svg)"


def _files(folder: str) -> list[str]:
    rows = [
        f"| `{name.rpartition('.')[2]}{'/' if is_folder(name) else '.py'}` | {said(name)} |"
        for name in inside(folder)
    ]
    return ["| | |", "|---|---|", *rows, ""] if rows else []


def index() -> str:
    """The page that leads to all others."""
    rows = [f"| [{room}]({room}.md) | {said(f'paceline.{room}')} |" for room in rooms()]
    words = [f"`{name}`" for floor in FLOORS for name in floor if not _is_room(name)]
    return "\n".join(
        [
            "# Rooms",
            "",
            MADE_BY,
            "",
            "The rooms from the top floor down. A page draws one: its files and sub-rooms, "
            "what each is, and who imports whom. [Architecture](../architecture.md) says "
            "why they stand so.",
            "",
            "| room | what it is |",
            "|---|---|",
            *rows,
            "",
            f"Single files that all of them may know: {', '.join(filter(None, words))}.",
            "",
            "![Who imports whom in paceline](../images/rooms/paceline.svg)",
            "",
            HOW_TO_READ,
            "",
        ]
    )


def _is_room(name: str) -> bool:
    return not name or is_folder(f"paceline.{name}")


def everything() -> dict[str, str]:
    """{path in the repository: what it must hold}."""
    found = {f"{PAGES}/README.md": index(), f"{PICTURES}/paceline.svg": house_picture()}
    for room in rooms():
        found[f"{PAGES}/{room}.md"] = page(room)
        for folder in drawn_folders(room):
            name = folder.removeprefix("paceline.")
            found[f"{PICTURES}/{name}.svg"] = picture(folder)
    return found


def there() -> set[str]:
    """What lies where the pages lie."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in (PAGES, PICTURES)
        for path in sorted((ROOT / folder).glob("*"))
    }


def write() -> None:
    """Write all pages, and remove those of rooms that are gone."""
    wanted = everything()
    for path in there() - wanted.keys():
        (ROOT / path).unlink()
    for name, text in wanted.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{len(everything())} files below {PAGES} and {PICTURES}\n")
