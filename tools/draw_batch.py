"""Draws one batch's way through the house, as SVG: once for light pages, once for dark.

::

    .venv/bin/python -m tools.draw_batch      writes docs/images/batch-{light,dark}.svg

Coordinates are pixels of a 960 x 640 canvas, x to the right, y down. Fonts are whatever
sans-serif the reader has: texts leave room for a wider one. Waits: for the disk.
"""

import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from paceline.watch.pictures import AT_NIGHT, FONT, INK, LINE, MUTED, OURS

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 960, 640
TITLE = "How a batch travels: eight steps between coordinator, trainer and servers"


class Colors(NamedTuple):
    """Of one picture."""

    ink: str
    faint: str
    room: str
    inner: str
    line: str
    step: str
    on_step: str


LIGHT = Colors(INK, MUTED, "#eef3f4", "#ffffff", LINE, OURS, "#ffffff")
DARK = Colors(
    *(AT_NIGHT[INK], AT_NIGHT[MUTED], "#262b36", "#323a47"),
    *(AT_NIGHT[LINE], AT_NIGHT[OURS], "#10141a"),
)
PICTURES = {"batch-light.svg": LIGHT, "batch-dark.svg": DARK}


def draw(colors: Colors) -> str:
    """The whole picture."""
    body = [
        *_coordinator(colors),
        *_trainer(colors),
        *_servers(colors),
        *_ways(colors),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'role="img" aria-label="{TITLE}" font-family="{FONT}">',
            f"<title>{TITLE}</title>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" '
            'markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            f'<path d="M0 0L10 5L0 10z" fill="{colors.step}"/></marker></defs>',
            *body,
            "</svg>",
            "",
        ]
    )


def _coordinator(c: Colors) -> list[str]:
    return [
        *_room(c, (20, 16, 920, 124), "coordinator", "who does what next, who is alive"),
        *_inner(c, (60, 66, 190, 56), "journal", "written before an answer"),
        *_inner(c, (300, 66, 120, 56), "todo", "tasks"),
        *_inner(c, (460, 66, 120, 56), "pending", "leased"),
        *_inner(c, (780, 66, 120, 56), "done", "counted"),
        _way(c, "M420 94H460"),
        _way(c, "M580 94H780"),
        *_step(c, 8, (614, 94)),
        *_text(c.faint, 13, (632, 84), "every part has", "", anchor="start"),
        *_text(c.faint, 13, (632, 114), "acknowledged it all", "", anchor="start"),
    ]


def _trainer(c: Colors) -> list[str]:
    return [
        *_room(c, (20, 226, 920, 142), "trainer", "the user's loop", indent=150),
        *_inner(c, (60, 276, 180, 76), "data", "reads records,", "cuts batches"),
        *_inner(c, (280, 276, 180, 76), "pace", "is a pull due?", "may I go on?"),
        *_inner(c, (500, 276, 180, 76), "your PyTorch", "forward,", "backward"),
        *_inner(c, (720, 276, 180, 76), "step()", "cuts gradients into", "blocks and rows"),
        _way(c, "M240 314H280"),
        _way(c, "M460 314H500"),
        _way(c, "M680 314H720"),
        *_step(c, 2, (72, 276)),
        *_step(c, 4, (512, 276)),
    ]


def _servers(c: Colors) -> list[str]:
    found = _room(c, (20, 466, 920, 158), "servers", "each holds a share")
    for number, x in enumerate((60, 500)):
        found += _inner(c, (x, 514, 400, 96), f"server-{number}", "", "")
        steps = ("seen before?", "update", "acknowledge")
        for place, name in enumerate(steps):
            left = x + 16 + 130 * place
            found.append(
                f'<rect x="{left}" y="552" width="108" height="40" rx="6" '
                f'fill="{c.room}" stroke="{c.line}"/>'
            )
            found += _text(c.ink, 13, (left + 54, 577), name, "")
            if place:
                found.append(_way(c, f"M{left - 22} 572H{left}"))
        found += _step(c, 6, (x + 12, 514))
    return found


def _ways(c: Colors) -> list[str]:
    """What travels between the rooms."""
    return [
        _way(c, "M150 276V140", both=True),
        *_step(c, 1, (150, 196)),
        *_text(c.faint, 13, (170, 192), "ask for a lease;", "", anchor="start"),
        *_text(c.faint, 13, (170, 209), "journalled, then granted", "", anchor="start"),
        _way(c, "M350 514V352"),
        _way(c, "M390 352V400H600V514", reverse=True),
        *_step(c, 3, (350, 412)),
        *_text(c.faint, 13, (334, 408), "pull: values land", "", anchor="end"),
        *_text(c.faint, 13, (334, 425), "in the trainer's buffers", "", anchor="end"),
        _way(c, "M780 352V514"),
        _way(c, "M740 352V436H430V514"),
        *_step(c, 5, (780, 412)),
        *_text(c.faint, 13, (800, 408), "push, stamped", "", anchor="start"),
        *_text(c.faint, 13, (800, 425), "with its window", "", anchor="start"),
        _way(c, "M810 276V140"),
        *_step(c, 7, (810, 196)),
        *_text(c.faint, 13, (790, 192), "all have acknowledged:", "", anchor="end"),
        *_text(c.faint, 13, (790, 209), "the clock ticks", "", anchor="end"),
    ]


def _room(
    c: Colors, at: tuple[int, int, int, int], name: str, about: str, indent: int = 20
) -> list[str]:
    x, y, width, height = at
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="12" '
        f'fill="{c.room}" stroke="{c.line}"/>',
        f'<text x="{x + indent}" y="{y + 30}" font-size="17" fill="{c.ink}">'
        f'<tspan font-weight="600">{escape(name)}</tspan>'
        f'<tspan dx="10" font-size="14" fill="{c.faint}">{escape(about)}</tspan></text>',
    ]


def _inner(c: Colors, at: tuple[int, int, int, int], name: str, *lines: str) -> list[str]:
    x, y, width, height = at
    found = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" '
        f'fill="{c.inner}" stroke="{c.line}"/>'
    ]
    middle = x + width // 2
    found += _text(c.ink, 15, (middle, y + 24), name, "600")
    for number, line in enumerate(filter(None, lines)):
        found += _text(c.faint, 13, (middle, y + 44 + 17 * number), line, "")
    return found


def _text(
    color: str,
    size: int,
    at: tuple[int, int],
    text: str,
    weight: str,
    *,
    anchor: str = "middle",
) -> list[str]:
    bold = f' font-weight="{weight}"' if weight else ""
    return [
        f'<text x="{at[0]}" y="{at[1]}" font-size="{size}" fill="{color}" '
        f'text-anchor="{anchor}"{bold}>{escape(text)}</text>'
    ]


def _step(c: Colors, number: int, at: tuple[int, int]) -> list[str]:
    x, y = at
    return [
        f'<circle cx="{x}" cy="{y}" r="13" fill="{c.step}"/>',
        *_text(c.on_step, 15, (x, y + 5), str(number), "700"),
    ]


def _way(c: Colors, path: str, *, both: bool = False, reverse: bool = False) -> str:
    ends = []
    if both or reverse:
        ends.append('marker-start="url(#head)"')
    if not reverse:
        ends.append('marker-end="url(#head)"')
    line = f'fill="none" stroke="{c.step}" stroke-width="2"'
    return f'<path d="{path}" {line} {" ".join(ends)}/>'


def main() -> int:
    """Write the pictures."""
    for name, colors in PICTURES.items():
        (IMAGES / name).write_text(draw(colors), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
