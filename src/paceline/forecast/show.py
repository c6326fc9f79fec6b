"""Forecasts for people: a table, a column for each and a row for each number; a picture.

Waits: for the file system, and for matplotlib, which only drawing imports.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import UsageError
from paceline.forecast.gauge import Spell
from paceline.forecast.job import Busyness, Forecast
from paceline.watch.pictures import (
    COLORS,
    INK,
    LINE,
    MUTED,
    STYLE,
    check_ending,
    import_pyplot,
    save,
)

Row = tuple[str, list[str]]


def table_of(forecasts: Sequence[Forecast]) -> list[Row]:
    """Rows of (name, one value for each forecast); names of groups have no values."""
    found = list(forecasts)
    rows: list[Row] = [
        ("pace", [f.pace for f in found]),
        ("trainers, servers", [f"{f.trainers:,}, {f.servers:,}" for f in found]),
        ("records/s", [_rate(f.records_per_second) for f in found]),
        ("  times the first", [_ratio(f, found[0]) for f in found]),
        ("updates/s", [_rate(f.updates_per_second) for f in found]),
        ("  in late pushes", [percent(f.late) for f in found]),
        ("seconds", [seconds(f.seconds) for f in found]),
        ("a batch of a trainer", [seconds(f.step_s) for f in found]),
        ("a trainer's time", []),
        ("  computes", [percent(f.spells["computing"]) for f in found]),
        ("  waits for servers", [percent(f.spells["servers"]) for f in found]),
        ("  waits for others", [percent(f.spells["coordinator"]) for f in found]),
        ("  has no work", [percent(f.spells["without work"]) for f in found]),
        ("  pauses", [percent(f.spells["paused"]) for f in found]),
        ("  is away, or else", [percent(f.spells["other"]) for f in found]),
        ("age of a push", []),
        ("  mean", [f"{f.ages.mean:,.1f}" for f in found]),
        ("  half, 90 %, 99 %", [_ages(f) for f in found]),
        ("  most", [f"{f.ages.most:,}" for f in found]),
        ("  too old", [percent(f.too_old) for f in found]),
        ("clocks apart, mean, most", [f"{f.gap_mean:,.1f}, {f.gap_most}" for f in found]),
        ("each server: busy, wait", []),
        ("  processor", [_load(f.server.cpu) for f in found]),
        ("  network in", [_load(f.server.inward) for f in found]),
        ("  network out", [_load(f.server.outward) for f in found]),
        ("  in, out a second", [_traffic(f) for f in found]),
        ("  messages a second", [f"{f.server.messages_per_s:,.0f}" for f in found]),
        ("coordinator: busy, wait", [_load(f.coordinator) for f in found]),
        ("  requests a second", [f"{f.requests_per_s:,.0f}" for f in found]),
    ]
    if any(f.deaths for f in found):
        rows += [
            ("deaths", [_deaths(f) for f in found]),
            ("  computed in vain", [percent(1 - f.useful) for f in found]),
        ]
    if len(found) == 1:
        del rows[3]  # beside nothing
    return [(name, values) for name, values in rows if not _is_nothing(name, values)]


def text_of(rows: Sequence[Row]) -> str:
    """Rows as columns of text, however wide: a comparison is read across."""
    columns = max(len(values) for _, values in rows)
    names = max(len(name) for name, _ in rows)
    widths = [
        max(len(values[n]) for _, values in rows if len(values) > n) for n in range(columns)
    ]
    lines = []
    for name, values in rows:
        cells = [value.rjust(width) for value, width in zip(values, widths, strict=False)]
        lines.append("  ".join([name.ljust(names), *cells]).rstrip())
    return "\n".join(lines)


def seconds(value: float) -> str:
    """A duration with its unit."""
    for factor, unit in ((1e-3, "us"), (1.0, "ms")):
        if value < factor:
            return f"{value / factor * 1000:.3g} {unit}"
    return f"{value:,.3g} s" if value < 1000 else f"{value:,.0f} s"


def percent(share: float) -> str:
    """A share of 1."""
    return f"{100 * share:.1f} %"


def amount(size: float) -> str:
    """Bytes with their unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def _is_nothing(name: str, values: list[str]) -> bool:
    return name.strip() in _RARE and set(values) == {"0.0 %"}


_RARE = {"too old", "pauses", "is away, or else", "in late pushes"}


def _ratio(found: Forecast, first: Forecast) -> str:
    return f"{found.records_per_second / first.records_per_second:.2f}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _ages(found: Forecast) -> str:
    return f"{found.ages.p50:,}, {found.ages.p90:,}, {found.ages.p99:,}"


def _load(load: Busyness) -> str:
    return f"{100 * load.busy:.0f} %, {seconds(load.wait_s)}"


def _traffic(found: Forecast) -> str:
    server = found.server
    return f"{amount(server.bytes_in_per_s)}, {amount(server.bytes_out_per_s)}"


def _deaths(found: Forecast) -> str:
    return ", ".join(f"{n} {kind}s" for kind, n in sorted(found.deaths.items())) or "none"


if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN: dict[Spell, tuple[str, str]] = {  # {spell: (what it is called, its color)}
    "computing": ("computes", COLORS[0]),
    "servers": ("waits for servers", COLORS[2]),
    "coordinator": ("waits for others", COLORS[1]),
    "without work": ("has no work", LINE),
    "paused": ("pauses", COLORS[3]),
    "other": ("is away", MUTED),
}


def check_picture(picture: Path) -> None:
    """Refuse, before anything is forecast, what cannot be drawn.

    Raises:
        UsageError: the name has another ending, there is no such folder, or matplotlib is
            not installed.
    """
    check_ending(picture, "--draw")
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
        height = 2.2 + 1.2 * len(forecasts)
        figure, grid = pyplot.subplots(
            2, 2, figsize=(9, height), sharey=True, layout="constrained"
        )
        panels = grid.ravel()
        places = list(range(len(forecasts)))[::-1]
        _draw_rates(panels[0], forecasts, places)
        _draw_time(panels[1], forecasts, places)
        _draw_load(panels[2], forecasts, places)
        _draw_ages(panels[3], forecasts, places)
        panels[0].set_yticks(places, [_name(one, forecasts) for one in forecasts])
        for panel in panels:
            panel.tick_params(axis="y", length=0, labelcolor=INK)
            panel.grid(visible=False, axis="y")
        for panel in panels[1:3]:
            panel.legend(loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2)
        save(figure, picture)
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
    axes.locator_params(axis="x", nbins=5)
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
    axes.legend(loc="lower right")
    axes.set_xlim(-3, 103)
    axes.set_ylim(-0.6, len(forecasts) - 0.4)
    axes.set_title("busy, %", loc="left")


def _draw_ages(axes: "Axes", forecasts: Sequence[Forecast], places: list[int]) -> None:
    """A line from the youngest to 99 % of the pushes, a dot at half of them."""
    for one, place in zip(forecasts, places, strict=True):
        axes.plot([0, one.ages.p99], [place, place], color=LINE, lw=2)
        axes.plot([one.ages.p90], [place], "|", color=INK, ms=12)
        axes.plot([one.ages.p50], [place], "o", color=COLORS[5], ms=7)
    axes.set_xlim(left=-0.02 * max(1, *(one.ages.p99 for one in forecasts)))
    axes.set_title("age of a push: 50, 90, 99 %", loc="left")
