"""The documents are true: commands exist, links lead somewhere, rooms are in order."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.house import CODE_FOLDERS, ROOT

OWN_PATH = re.compile(r"(?<![\w.])/(?:tmp|root|home|work)/")
MAKE_COMMAND = re.compile(r"(?:^|`)make +([a-z][\w-]*)", re.MULTILINE)
MAKE_TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
LEFT_BY_A_MERGE = re.compile(r"^(<{7}|>{7}|={7}$)", re.MULTILINE)
NUMBERED_ROOM = re.compile(r"^[ |`]*(\w+)/?`?[ |]+(\d)\b", re.MULTILINE)
ROOMS = ["data", "coordinator", "trainer", "pace", "server", "params", "store"]


def documents() -> list[Path]:
    """Everything written for people."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def own_files() -> Iterator[Path]:
    """Every text file that is ours."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in (*CODE_FOLDERS, "docs", ".ci", ".github"):
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.is_file()
                and "__pycache__" not in path.parts
                and ".egg-info" not in str(path)
            ):
                yield path


def missing_targets(document: str, makefile: str) -> set[str]:
    """Targets that a document names and a Makefile does not have."""
    return set(MAKE_COMMAND.findall(document)) - set(MAKE_TARGET.findall(makefile))


def machine_paths(text: str) -> list[int]:
    """Lines that hold a path of one machine."""
    return [
        number for number, line in enumerate(text.splitlines(), 1) if OWN_PATH.search(line)
    ]


def test_make_commands_of_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in documents():
        missing = missing_targets(path.read_text(encoding="utf-8"), makefile)
        assert not missing, f"{path.name} tells people to run make {', '.join(missing)}"


def test_a_missing_make_command_is_caught() -> None:
    assert missing_targets("run `make demo` or\nmake soap\n", "demo: x\n") == {"soap"}


def test_links_of_the_documents_lead_somewhere() -> None:
    dead = [
        f"{path.relative_to(ROOT)}: {link}"
        for path in documents()
        for link in LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / link).exists()
    ]
    assert not dead, "\n".join(dead)


def test_the_rooms_are_told_in_the_order_of_the_data() -> None:
    for name in ("README.md", "docs/architecture.md", "src/paceline/__init__.py"):
        text = (ROOT / name).read_text(encoding="utf-8")
        told = NUMBERED_ROOM.findall(text)
        assert [room for room, _ in told] == ROOMS, name
        assert [int(number) for _, number in told] == list(range(1, len(ROOMS) + 1)), name


def test_no_file_holds_what_a_merge_left_undecided() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in own_files()
        if LEFT_BY_A_MERGE.search(path.read_text(encoding="utf-8", errors="ignore"))
    ]
    assert not found, f"lines of both sides of a merge: {', '.join(found)}"


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in own_files()
        for line in machine_paths(path.read_text(encoding="utf-8", errors="ignore"))
    ]
    assert not found, "absolute paths of one machine:\n" + "\n".join(found)


def test_a_path_of_one_machine_is_caught() -> None:
    for folder in ("tmp", "root", "home", "work"):
        assert machine_paths(f"open('/{folder}/x')") == [1]
    assert not machine_paths("import a/home/b, /usr/share/datasets")


def test_the_stops_of_a_batch_are_files_of_the_house() -> None:
    page = (ROOT / "docs" / "how-a-batch-travels.md").read_text(encoding="utf-8")
    stops = re.findall(
        r"`([\w/]+\.py)`", page.partition("## The same steps in the code")[2]
    )
    assert len(stops) > 20
    assert not [stop for stop in stops if not (ROOT / "src" / "paceline" / stop).is_file()]
