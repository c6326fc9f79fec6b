"""How all pictures look: colors by day and by night, fonts, sizes, and how one is written.

A picture that a page shows is an SVG with both colors in it: where the reader's page is
dark it takes those of `AT_NIGHT`, and its ground is the page's. One that a person has asked
for may also be a PNG on white. matplotlib draws runs, forecasts and benchmarks in `STYLE`;
what is drawn by hand (`tools/draw_batch.py`, `tests/architecture/room_drawing.py`) has the
same colors.

Waits: for the file system, and for matplotlib, which only drawing imports.
"""

import io
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from paceline.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg")  # of the files that are written
FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
INK, MUTED, LINE, GRID = "#1f2933", "#5f6c7b", "#90a4ae", "#e3e8eb"
# Teal is the house's; the others are of Okabe and Ito (2008): told apart by everyone.
COLORS = ("#00796b", "#e69f00", "#0072b2", "#cc79a7", "#56b4e9", "#d55e00")
OURS, PEER, FLOOR = COLORS[0], LINE, "#e0a458"
AT_NIGHT = {  # {by day: by night}; what is missing is seen on both
    INK: "#e4e9ef",
    MUTED: "#a3afbc",
    LINE: "#6b7a8c",
    GRID: "#363d49",
    COLORS[0]: "#4db6ac",
    COLORS[2]: "#7986cb",
    COLORS[5]: "#ff8a65",
}
STYLE = {
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


def import_pyplot() -> ModuleType:
    """matplotlib, drawing into files.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  (an extra: only drawing needs it)

        mpl.use("agg")
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            "drawing needs matplotlib; install it with: pip install 'paceline[plot]'"
        ) from error
    return plt


def check_ending(picture: Path, what: str = "a picture") -> None:
    """Refuse, before anything is drawn, a file that `save` does not write.

    Raises:
        UsageError: its name has another ending; ``what`` names it to users.
    """
    if picture.suffix not in ENDINGS:
        endings = " or ".join(ENDINGS)
        raise UsageError(f"{what}: expected a file that ends with {endings}, got {picture}")


def save(figure: "Figure", picture: Path) -> None:
    """Write a figure drawn in `STYLE`: the same figure makes the same file.

    Args:
        figure: stays open.
        picture: an SVG for pages, by day and by night, or a PNG on white.

    Raises:
        UsageError: as `check_ending`.
    """
    check_ending(picture)
    picture.parent.mkdir(parents=True, exist_ok=True)
    if picture.suffix != ".svg":
        figure.savefig(picture, dpi=140, facecolor="white", metadata={"Software": None})
        return
    written = io.StringIO()
    style = {"svg.hashsalt": "paceline", "svg.fonttype": "none"}
    with import_pyplot().rc_context(style):
        metadata = {"Date": None, "Creator": None}
        figure.savefig(written, format="svg", transparent=True, metadata=metadata)
    picture.write_text(by_day_and_night(written.getvalue()), encoding="utf-8")


def by_day_and_night(svg: str) -> str:
    """What matplotlib has written, with the reader's font and the colors of dark pages."""
    dark = [
        f'[style*="{what}: {day}"] {{ {what}: {night} !important }}'
        for day, night in AT_NIGHT.items()
        for what in ("fill", "stroke")
    ]
    rules = [f"text {{ font-family: {FONT} !important }}"]
    rules += ["@media (prefers-color-scheme: dark) {", *dark, "}"]
    head, end, rest = svg.partition("</style>")
    return "\n".join([head, *rules, f"{end}{rest}"])
