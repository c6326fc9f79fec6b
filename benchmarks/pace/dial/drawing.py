"""Pictures of the experiments: one for each table.

Waits: for the file system.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.pace.dial.table import NEVER, Table
from paceline.watch.pictures import COLORS, INK, LINE, STYLE, import_pyplot, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOMENTS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LINES = ("-", "--", ":")


def draw(table: Table, how: str, picture: Path) -> None:
    """Draw a table.

    Args:
        table: what was found.
        how: ``bars``, ``panels``, ``pairs`` or ``chances``.
        picture: where to, an SVG; the same numbers make the same file.
    """
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(10, 4.2), layout="constrained")
        _WAYS[how](table, figure)
        figure.suptitle(table.title, x=0.01, ha="left", fontweight="bold")
        save(figure, picture)
        pyplot.close(figure)


def _bars(table: Table, figure: "Figure") -> None:
    """A panel for each place, a bar for each series; what never came is said."""
    places = list(next(iter(table.values.values())))
    axes = figure.subplots(1, len(places), sharey=True)
    series = list(table.values)
    for axis, place in zip(axes, places, strict=True):
        values = [table.values[one][place] for one in series]
        known = [value for value in values if math.isfinite(value)]
        best = min(known)
        for n, value in enumerate(values):
            if not math.isfinite(value):
                axis.annotate(NEVER, (0, n), fontsize=9, va="center")
                continue
            axis.barh(n, value, color=COLORS[0] if value == best else LINE, height=0.65)
            axis.annotate(f" {value:.1f}", (value, n), va="center", fontsize=8.5)
        axis.set_xlim(0, 1.25 * max(known))
        axis.set_title(f"slow: {place}", loc="left", fontsize=10)
        axis.set_xlabel(table.unit)
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(range(len(series)), series)
    axes[0].invert_yaxis()
    axes[0].tick_params(axis="y", length=0, labelcolor=INK)


def _panels(table: Table, figure: "Figure") -> None:
    """A panel for each series, all over the same places."""
    axes = figure.subplots(1, len(table.values))
    for n, (axis, (name, points)) in enumerate(
        zip(axes, table.values.items(), strict=True)
    ):
        _line(axis, points, COLORS[n])
        axis.set_title(name, loc="left", fontsize=10)
        axis.set_xlabel(table.across)
        axis.set_ylim(bottom=0)


def _pairs(table: Table, figure: "Figure") -> None:
    """A panel for each measure, a line for each way; what has no number has no point."""
    measures: dict[str, list[str]] = {}  # {measure: its series}
    for name in table.values:
        measures.setdefault(name.rpartition(", ")[2], []).append(name)
    axes = figure.subplots(1, len(measures))
    for axis, (measure, series) in zip(axes, measures.items(), strict=True):
        for n, name in enumerate(series):
            label = name.removesuffix(f", {measure}")
            _line(axis, table.values[name], COLORS[n % len(COLORS)], label=label)
        axis.set_title(measure, loc="left", fontsize=10)
        axis.set_xlabel(table.across)
        axis.set_ylim(bottom=0)
    axes[0].legend()


def _chances(table: Table, figure: "Figure") -> None:
    """Shares that grow with time."""
    axis = figure.subplots()
    for n, (name, points) in enumerate(table.values.items()):
        seconds = [float(where) for where in points]
        color = COLORS[n % len(COLORS)]
        line = LINES[n // len(COLORS)]
        axis.plot(
            seconds, [100 * y for y in points.values()], line, color=color, label=name
        )
    axis.set_xscale("log")
    axis.set_xticks(MOMENTS_S, [f"{seconds:g}" for seconds in MOMENTS_S])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(table.across)
    axis.set_ylabel("% of all rounds")
    axis.legend(title="gradient", loc="lower right")


def _line(
    axis: "Axes",
    points: Mapping[str, float],
    color: str,
    label: str | None = None,
) -> None:
    places = list(range(len(points)))
    known = [(x, y) for x, y in zip(places, points.values(), strict=True) if y < math.inf]
    xs, ys = zip(*known, strict=True) if known else ((), ())
    axis.plot(xs, ys, "o-", color=color, ms=4, label=label)
    axis.set_xticks(places, list(points))


_WAYS: dict[str, Callable[[Table, "Figure"], None]] = {
    "bars": _bars,
    "panels": _panels,
    "pairs": _pairs,
    "chances": _chances,
}
