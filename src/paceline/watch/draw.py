"""A run as a picture: what it learned, how fast, who did it, and who died.

::

    +--------------------------------------------+
    |  the loss over records, smoothed           |
    |  .  .    .      each trainer's points      |
    +----------------------+---------------------+
    |  another number      |  the next one       |   every number that was logged
    +----------------------+---------------------+   | a process died
    |  records per second over time              |   : it came back
    +--------------------------------------------+   - another pace, other trainers, a
    |  records by trainer over time, stacked     |     run that goes on with the job
    +--------------------------------------------+

Waits: for the file system, and for matplotlib, which only drawing imports.
"""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import UsageError
from paceline.events import event_lines
from paceline.watch.history import History, Mark, own_records, rates, read_history, smoothed
from paceline.watch.pictures import (
    COLORS,
    INK,
    MUTED,
    STYLE,
    check_ending,
    import_pyplot,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES = 12  # trainers that are named in the picture
MOST_METRICS = 36  # logged numbers that have a panel: more cannot be told apart
MOST_LANES = 4  # lines of names above a panel
LETTER = 0.0068  # width of one of them, as a share of the panel's
DEATH, RETURN, CHANGE = "#d84315", "#2E8B57", "#6A3D9A"
MARKS = {  # {kind: color, kind of line}
    "died": (DEATH, "-"),
    "came back": (RETURN, ":"),
    "pace": (CHANGE, "--"),
    "scaled": (CHANGE, "--"),
    "resumed": (INK, "--"),
}


def draw_run(events: Path, picture: Path, title: str) -> None:
    """Draw ``events.jsonl`` of a run, running or ended, as a PNG or SVG.

    Raises:
        UsageError: the picture's name has another ending, there are no events, or
            matplotlib is not installed.
    """
    check_ending(picture)
    try:
        history = read_history(event_lines(events))
    except OSError as error:
        raise UsageError(f"cannot read {events}: {error.strerror}") from error
    if not history.progress:
        raise UsageError(f"{events} tells of no progress yet: there is nothing to draw")
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure = compose(history, title)
        save(figure, picture)
        pyplot.close(figure)


def compose(history: History, title: str) -> "Figure":
    """The picture of a run, not yet in a file.

    Raises:
        UsageError: matplotlib is not installed.
    """
    metrics, left_out = order_of_panels(history.metrics)
    columns = num_columns(len(metrics) - 1)
    others = -(-(len(metrics) - 1) // columns) if metrics else 0
    heights = [2.2, *[1.3 if columns == 1 else 1.0] * others, 1, 1.4]
    size = (11, 2.2 * sum(heights))
    figure: Figure = import_pyplot().figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    top = figure.add_subplot(grid[0, :])
    small = [
        figure.add_subplot(grid[1 + n // columns, n % columns])
        for n in range(len(metrics) - 1)
    ]
    middle = figure.add_subplot(grid[-2, :])
    bottom = figure.add_subplot(grid[-1, :], sharex=middle)
    if not metrics:
        top.text(0.5, 0.5, "nothing was logged", transform=top.transAxes, ha="center")
    for axes, metric in zip([top, *small], metrics, strict=False):
        _draw_metric(axes, history, metric, is_first=axes is top)
        _name_metric(axes, metric, 1 if axes is top else columns)
    for n, axes in enumerate([top, *small]):
        is_lowest = n + columns > len(small) and (n > 0 or not small)
        axes.tick_params(labelbottom=is_lowest)
        axes.set_xlabel("records" if is_lowest else "")
    middle.set_xlim(0, history.progress[-1].seconds or 1)
    _draw_rate(middle, history)
    _draw_trainers(bottom, history)
    lines = [_headline(history), *_tell_left_out(left_out)]
    top.set_title(
        title, loc="left", fontsize=16, fontweight="bold", pad=10 + 16 * len(lines)
    )
    top.annotate(
        "\n".join(lines),
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 9),
        textcoords="offset points",
        color=MUTED,
    )
    figure.align_ylabels()
    return figure


def _headline(history: History) -> str:
    """The run in a line."""
    pieces = [f"{history.records:,} records"]
    rate = history.records_per_second()
    if rate is not None:
        pieces.append(f"{rate:,.0f} records/s in loops over batches")
    deaths = sum(mark.kind == "died" for mark in history.marks)
    if deaths:
        pieces.append(f"{deaths} death" + ("s" if deaths > 1 else ""))
    return "  ·  ".join(pieces)


def order_of_panels(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Logged numbers that have a panel, the loss first; and those that have none."""
    ordered = sorted(names, key=lambda name: name != "loss")
    return ordered[:MOST_METRICS], ordered[MOST_METRICS:]


def num_columns(panels: int) -> int:
    """In how many columns the numbers below the loss stand."""
    return 1 if panels <= 3 else 2 if panels <= 10 else 3


def _tell_left_out(names: Sequence[str]) -> list[str]:
    """Which numbers are not drawn, and why."""
    if not names:
        return []
    what = "number has no panel" if len(names) == 1 else "numbers have no panel"
    told = f"{len(names)} {what}, since a picture holds {MOST_METRICS}: {', '.join(names)}"
    return textwrap.wrap(told, 130, max_lines=4, placeholder=" and more")


def _draw_metric(axes: "Axes", history: History, metric: str, *, is_first: bool) -> None:
    """A logged number over records."""
    series = history.metrics[metric]
    color_of = _colors(history)
    for n, (trainer, points) in enumerate(sorted(series.items())):
        x, y = [p.records for p in points], [p.value for p in points]
        name = trainer if n < MOST_NAMES else None
        axes.plot(x, y, color=color_of[trainer], alpha=0.4, lw=1, label=name)
    curve = smoothed([point for points in series.values() for point in points])
    at = {point.records: point.value for point in curve}  # trainers log at the same records
    axes.plot([*at], [*at.values()], color=INK, lw=1.8, label="smoothed")
    axes.set_xlim(-0.01 * history.records, 1.01 * (history.records or 1))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    if is_first:
        legend = axes.legend(frameon=False, loc="upper right", ncols=2)
        for line in legend.get_lines():
            line.set(alpha=1, lw=2.2)
    for mark in history.marks:
        color, dashes = MARKS[mark.kind]
        if mark.kind != "came back":
            axes.axvline(mark.records, color=color, ls=dashes, lw=0.8, alpha=0.5)


def _name_metric(axes: "Axes", metric: str, columns: int) -> None:
    """Beside the panel; above, where panels are narrow."""
    if columns == 1:
        axes.set_ylabel(textwrap.fill(metric, 20))
        return
    name = textwrap.fill(metric, 110 // columns, break_on_hyphens=False)
    axes.set_title(name, loc="left", fontsize=9.5)
    axes.locator_params(axis="x", nbins=4)


def _draw_rate(axes: "Axes", history: History) -> None:
    points = rates(history.progress)
    x, y = [seconds for seconds, _ in points], [rate for _, rate in points]
    if points:  # a step reaches back to the point before it
        x, y = [history.progress[0].seconds, *x], [y[0], *y]
    axes.fill_between(x, y, step="pre", color=COLORS[0], alpha=0.15, lw=0)
    axes.step(x, y, where="pre", color=COLORS[0], lw=1.4)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records/s")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    axes.tick_params(labelbottom=False)
    _draw_marks(axes, history.marks, with_names=True)


def _draw_trainers(axes: "Axes", history: History) -> None:
    """Who trained what: each trainer's own records, one on top of the other."""
    seconds = [moment.seconds for moment in history.progress]
    counts, color_of = own_records(history.progress), _colors(history)
    if counts:
        axes.stackplot(
            seconds,
            *counts.values(),
            colors=[color_of[trainer] for trainer in counts],
            alpha=0.8,
            edgecolor="white",
            lw=0.8,
        )
    below = 0
    for trainer, series in counts.items():
        if len(counts) <= MOST_NAMES:
            axes.annotate(
                f" {trainer}",
                (seconds[-1], below + series[-1] / 2),
                color=color_of[trainer],
                va="center",
                annotation_clip=False,
            )
        below += series[-1]
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records by trainer")
    axes.set_xlabel("seconds")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    _draw_marks(axes, history.marks, with_names=False)


def _draw_marks(axes: "Axes", marks: list[Mark], *, with_names: bool) -> None:
    """A line where something changed, with its name: who died, which pace it is now."""
    for mark in marks:
        color, dashes = MARKS[mark.kind]
        axes.axvline(mark.seconds, color=color, ls=dashes, lw=1.1)
    named = [mark for mark in marks if mark.kind != "came back"] if with_names else []
    names = [f"{m.what} died" if m.kind == "died" else m.what for m in named]
    span_s = axes.get_xlim()[1] or 1.0
    placed = lanes([mark.seconds / span_s for mark in named], names)
    for mark, name, lane in zip(named, names, placed, strict=True):
        if lane is not None:
            axes.annotate(
                name,
                (mark.seconds, 1),
                xycoords=("data", "axes fraction"),
                xytext=(1, 3 + 11 * lane),
                textcoords="offset points",
                color=MARKS[mark.kind][0],
                fontsize=8.5,
                annotation_clip=False,
            )


def lanes(places: Sequence[float], names: Sequence[str]) -> list[int | None]:
    """In which line each name stands, so that none lies on another; None: in none.

    ``places`` are where each begins, from 0 to 1, in order.
    """
    free_at = [0.0] * MOST_LANES
    found: list[int | None] = []
    for place, name in zip(places, names, strict=True):
        lane = next((n for n, free in enumerate(free_at) if free <= place), None)
        if lane is not None:
            free_at[lane] = place + LETTER * (len(name) + 1)
        found.append(lane)
    return found


def _colors(history: History) -> dict[str, str]:
    """{trainer: its color}, the same in every panel."""
    trainers = {name for p in history.progress for name in p.trainers}
    trainers |= {name for series in history.metrics.values() for name in series}
    return {name: COLORS[n % len(COLORS)] for n, name in enumerate(sorted(trainers))}
