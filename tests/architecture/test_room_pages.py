"""The pages of the rooms say what the code says, and the drawings show every import."""

import re

import pytest

from tests.architecture import room_pages
from tests.architecture.house import ROOT
from tests.architecture.room_drawing import Unit, draw
from tests.architecture.test_rooms import INSIDE, arrows

RUN = f"run {room_pages.COMMAND}, and commit what it writes"


def test_the_pages_of_the_rooms_are_what_their_command_writes() -> None:
    wanted = room_pages.everything()
    stale = [
        name
        for name, text in wanted.items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, f"{', '.join(stale)}: {RUN}"
    over = room_pages.there() - wanted.keys()
    assert not over, f"{', '.join(sorted(over))}: {RUN}"


@pytest.mark.parametrize("folder", INSIDE)
def test_a_drawing_has_a_dot_for_every_import_and_none_climbs(folder: str) -> None:
    drawn = room_pages.picture(folder)
    pairs = set(re.findall(r"<title>(\w+) imports (\w+)</title>", drawn))
    assert pairs == arrows(folder)
    order = re.findall(r"<text[^>]*>(\w+)/?</text>", drawn)
    assert all(order.index(here) < order.index(there) for here, there in pairs)


def test_units_without_floors_stand_above_what_they_import() -> None:
    floors = room_pages.floors_of("paceline.messages", arrows("paceline.messages"))
    assert all(floors[a] > floors[b] for a, b in arrows("paceline.messages"))


def test_a_dot_lies_in_the_column_of_who_imports_and_the_line_of_what() -> None:
    drawn = draw("two", [Unit("a", "a", 1), Unit("b", "b", 0)], {("a", "b")})
    [corner] = re.findall(r'<path d="M\d+ (\d+)H(\d+)v(\d+)"/>', drawn)
    y, x, down = map(int, corner)
    assert f'<circle cx="{x}" cy="{y + down}"' in drawn
