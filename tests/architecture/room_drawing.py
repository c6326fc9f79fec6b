"""Draws who imports whom in a room, as SVG: a staircase.

Each file and sub-room has one line and one column, in the order of the floors, the highest
first. A unit's line goes right to its own column, and the column down from there. Where the
column crosses another unit's line, a dot says that the first imports the second: down a
column is all that a unit knows, along a line are all who know it.
"""

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

LINE, COLUMN, MARGIN = 26, 24, 14  # pixels
LETTER = 7.6  # pixels of one, in the font below, at the most
STYLE = """
text { font: 13px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #1f2933; }
path { stroke: #90a4ae; stroke-width: 1.2; fill: none; }
.floor { stroke: #cfd8dc; stroke-dasharray: 2 4; }
circle { fill: #00796b; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e9ef; } path { stroke: #6b7a8c; } .floor { stroke: #3b4554; }
  circle { fill: #4db6ac; }
}"""


class Unit(NamedTuple):
    """A line of the drawing: what it is called, and on which floor it stands."""

    name: str
    label: str
    floor: int


def draw(title: str, units: Sequence[Unit], arrows: set[tuple[str, str]]) -> str:
    """The drawing.

    Args:
        title: what is said instead of it where it is not seen.
        units: from the highest floor to the lowest.
        arrows: (who imports, what), by the names of units.
    """
    left = round(MARGIN + LETTER * max(len(unit.label) for unit in units) + MARGIN)
    width = left + COLUMN * len(units) + MARGIN
    height = 2 * MARGIN + LINE * len(units)
    place = {unit.name: number for number, unit in enumerate(units)}
    lowest = {unit.name: place[unit.name] for unit in units}
    for here, there in arrows:
        lowest[here] = max(lowest[here], place[there])
    body = []
    for number, unit in enumerate(units):
        x, y = left + COLUMN * number + COLUMN // 2, MARGIN + LINE * number + LINE // 2
        if number and units[number - 1].floor != unit.floor:
            body.append(f'<path class="floor" d="M{MARGIN} {y - LINE // 2}H{left}"/>')
        body.append(f'<text x="{MARGIN}" y="{y + 4}">{escape(unit.label)}</text>')
        down = LINE * (lowest[unit.name] - number)
        known_by = [place[here] for here, there in arrows if there == unit.name]
        if down:
            body.append(f'<path d="M{left} {y}H{x}v{down}"/>')
        elif known_by:
            last_x = left + COLUMN * max(known_by) + COLUMN // 2
            body.append(f'<path d="M{left} {y}H{last_x}"/>')
    for here, there in sorted(arrows, key=lambda arrow: (place[arrow[0]], place[arrow[1]])):
        x = left + COLUMN * place[here] + COLUMN // 2
        y = MARGIN + LINE * place[there] + LINE // 2
        body.append(
            f'<circle cx="{x}" cy="{y}" r="4.5"><title>{escape(here)} imports '
            f"{escape(there)}</title></circle>"
        )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    )
    style = f"<style>{STYLE}\n</style>"
    return "\n".join([head, f"<title>{escape(title)}</title>", style, *body, "</svg>", ""])
