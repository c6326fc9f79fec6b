"""Forecasts as a picture: how fast, what trainers' time goes to, how old pushes are.

Waits: for the file system, and for matplotlib, which only drawing imports.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import UsageError
from paceline.forecast.gauge import Spell
from paceline.forecast.job import Forecast
from paceline.watch.draw import COLORS, INK, STYLE, import_pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".svg")
SHOWN: dict[Spell, tuple[str, str]] = {  # {spell: (what it is called, its color)}
    "computing": ("computes", COLORS[2]),
    "servers": ("waits for servers", COLORS[0]),
    "coordinator": ("waits for others", COLORS[1]),
    "without work": ("has no work", "#B8B8B8"),
    "paused": ("pauses", COLORS[3]),
    "other": ("is away", "#666666"),
}


def check_picture(picture: Path) -> None:
    """Refuse, before anything is forecast, what cannot be drawn.

    Raises:
        UsageError: the name has another ending, there is no such folder, or matplotlib is
            not installed.
    """
    if picture.suffix not in ENDINGS:
        raise UsageError(
            f"--draw: expected a file that ends with {' or '.join(ENDINGS)}, got {picture}"
        )
    if not picture.absolute().parent.is_dir():
        raise UsageError(f"--draw: there is no folder {picture.absolute().parent}")
    import_pyplot()


def draw_forecasts(forecasts: Sequence[Forecast], picture: Path) -> None:
    """Draw forecasts side by side, as a PNG or SVG.

    Raises:
        UsageError: as `check_picture`.
    """
    check_picture(picture)
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        height = 1.6 + 0.9 * len(forecasts)
        figure, panels = pyplot.subplots(
            1, 4, figsize=(13, height), sharey=True, layout="constrained"
        )
        names = [_name(one, forecasts) for one in forecasts]
        places = list(range(len(forecasts)))[::-1]
        _draw_rates(panels[0], forecasts, places)
        _draw_time(panels[1], forecasts, places)
        _draw_load(panels[2], forecasts, places)
        _draw_ages(panels[3], forecasts, places)
        panels[0].set_yticks(places, names)
        panels[0].tick_params(axis="y", length=0, labelcolor=INK)
        for panel in panels:
            panel.grid(visible=False, axis="y")
        handles, labels = panels[1].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=len(labels), frameon=False
        )
        figure.savefig(picture, dpi=140, facecolor="white")
        pyplot.close(figure)


def _name(one: Forecast, forecasts: Sequence[Forecast]) -> str:
    machines = {(other.trainers, other.servers) for other in forecasts}
    if len(machines) == 1:
        return one.pace
    return f"{one.pace}\n{one.trainers:,} trainers, {one.servers:,} servers"


def _draw_rates(axes: "Axes", forecasts: Sequence[Forecast], places: list[int]) -> None:
    rates = [one.records_per_second for one in forecasts]
    axes.barh(places, rates, color=COLORS[0], height=0.6)
    for place, rate in zip(places, rates, strict=True):
        axes.annotate(f" {rate:,.0f}", (rate, place), va="center", fontsize=9)
    axes.set_xlim(0, 1.25 * max(rates))
    axes.set_title("records/s", loc="left")


def _draw_time(axes: "Axes", forecasts: Sequence[Forecast], places: list[int]) -> None:
    """What each trainer's time goes to."""
    left = [0.0] * len(forecasts)
    for spell, (name, color) in SHOWN.items():
        shares = [100 * one.spells[spell] for one in forecasts]
        if max(shares) < 0.05:
            continue
        axes.barh(places, shares, left=left, color=color, height=0.6, label=name)
        left = [before + share for before, share in zip(left, shares, strict=True)]
    axes.set_xlim(0, 100)
    axes.set_title("a trainer's time, %", loc="left")


def _draw_load(axes: "Axes", forecasts: Sequence[Forecast], places: list[int]) -> None:
    """How busy a server and the coordinator are: a point each."""
    kinds = {
        "processor": ("o", [one.server.cpu.busy for one in forecasts]),
        "network in": (">", [one.server.inward.busy for one in forecasts]),
        "network out": ("<", [one.server.outward.busy for one in forecasts]),
        "coordinator": ("s", [one.coordinator.busy for one in forecasts]),
    }
    for n, (name, (marker, shares)) in enumerate(kinds.items()):
        x = [100 * share for share in shares]
        axes.plot(x, places, marker, color=COLORS[n], label=f"{name}", alpha=0.9, ms=7)
    axes.legend(fontsize=7.5, frameon=False, loc="lower right")
    axes.set_xlim(-3, 103)
    axes.set_ylim(-0.6, len(forecasts) - 0.4)
    axes.set_title("busy, %", loc="left")


def _draw_ages(axes: "Axes", forecasts: Sequence[Forecast], places: list[int]) -> None:
    """A line from the youngest to 99 % of the pushes, a dot at half of them."""
    for one, place in zip(forecasts, places, strict=True):
        axes.plot([0, one.ages.p99], [place, place], color="#B8B8B8", lw=2)
        axes.plot([one.ages.p90], [place], "|", color=INK, ms=12)
        axes.plot([one.ages.p50], [place], "o", color=COLORS[5], ms=7)
    axes.set_xlim(left=-0.02 * max(1, *(one.ages.p99 for one in forecasts)))
    axes.set_title("age of a push: half, 90 %, 99 %", loc="left")
