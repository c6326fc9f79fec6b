"""Draws what was measured last into a page: docs/benchmarks-results.md and its pictures.

::

    python -m benchmarks page [--records build/bench] [--out docs]

No number is typed by hand: of each benchmark the newest record counts, with machine,
versions, commit, command and date as it holds them. A record of a changed tree, of a busy
machine, of fewer than five runs or of sides that were not equal says so on the page.

Waits: for the disk.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness.figures import (
    COUNTS,
    Figure,
    Ratio,
    figure_rows,
    ratio_rows,
    read,
)
from benchmarks.harness.goals import TABLE
from benchmarks.harness.record import BUSY_SHARE, FOLDER, ROOT, spread
from paceline.watch.pictures import (
    FLOOR,
    INK,
    MUTED,
    OURS,
    PEER,
    STYLE,
    import_pyplot,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {  # {name of a record: what stands above it}, in the page's order
    "ctr": "Against the best plain loop",
    "ctr_peers": "Against other parameter servers",
    "dense": "A synchronous step, against DDP",
    "step_cost": "What a step costs by itself",
    "two_trainers": "What a second trainer is worth",
    "start": "How a script begins, and what it holds",
    "transport": "A pull and a push between two processes",
    "codecs": "What a codec costs and saves",
    "bookkeeping": "What journal and exactly-once cost",
    "readers": "Reading files",
    "scaling": "One to four servers and trainers",
    "link": "Over a slow link",
    "far": "A stream between two machines",
    "round_trips": "Round trips that wait for each other",
    "recovery": "How long a job stands still",
    "coordinator_scale": "How many a coordinator can lead",
    "server_scale": "How many trainers a server can have",
    "paces": "Trainers of different speed",
    "diloco": "Local steps and an outer one, at equal tokens",
    "factorisation": "Matrix factorisation on tables",
    "factorisation_models": "The same in each model of computation",
    "topics": "Topics on tables",
    "clusters": "k-means on tables",
    "classification": "Logistic regression on tables",
    "predictions": "How right a forecast is",
    "simulator": "The simulator",
}
ENOUGH_RUNS = 5
MANY = 6  # ratios of one goal
AS_A_TABLE = {"scaling"}  # bars that are all equal tell less than their table
NEAR_EACH_OTHER = {"AUC"}  # units of points: bars from zero would all look the same
COLORS = {"ours": OURS, "peer": PEER, "floor": FLOOR}
FAR_APART = 20.0  # times: on an axis from zero the least could not be read

Record = Mapping[str, Any]


class Kept(NamedTuple):
    """A record and its name."""

    name: str
    record: Record


def newest(folder: Path) -> list[Kept]:
    """The newest record of each benchmark that the page knows, in its order.

    Records without figures, of an older paceline, are passed over.
    """
    found = []
    for name in TITLES:
        for path in sorted(folder.glob(f"{name}-[0-9]*-[0-9]*.json"), reverse=True):
            record = json.loads(path.read_text(encoding="utf-8"))
            if "ratios" in record and "busy_share" in record:
                found.append(Kept(name, record))
                break
    return found


def doubts(record: Record) -> list[str]:
    """Why a record's numbers are no more than a hint; empty if they are more."""
    figures, ratios = read(dict(record))
    sides = tuple(side for ratio in ratios for side in (ratio.ours, ratio.against))
    compared = {ratio.what for ratio in ratios}
    runs = [
        len(figure.values)
        for figure in figures
        # A side may be the best of some: then it ends with whose it is.
        if figure.unit not in COUNTS and figure.what in compared
        if any(s.endswith(figure.who) for s in sides)
    ]
    least = min(runs, default=ENOUGH_RUNS)
    said = []
    if not record["is_equal"]:
        said.append("the sides were not equal: no ratio counts")
    if record["busy_share"] >= BUSY_SHARE:
        said.append(f"the machine was {record['busy_share']:.0%} busy when it began")
    if least < ENOUGH_RUNS:
        said.append(f"some of what is compared is of {least} run{'s' * (least != 1)} only")
    if record["is_changed"]:
        said.append("the tree had changes beside the commit")
    return said


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table; the first is its head."""
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body])


def goal_rows(found: Sequence[Kept]) -> list[list[str]]:
    """The table of goals: what was found of each, and whether it is enough.

    Each of some ratios about one goal has its row, and of many the worst. Where a doubt
    hangs over a record, a verdict is ``a hint``.
    """
    rows = [["", "against", "wanted", "found", "", "of whom"]]
    records = {one.name: one.record for one in found}
    for goal in TABLE:
        head = [goal.what, goal.against, goal.words]
        record = records.get(goal.benchmark)
        ratios = [] if record is None else read(dict(record))[1]
        about = sorted((r for r in ratios if r.goal_name == goal.name), key=distance)
        if record is None or not about:
            rows.append([*head, "", "not measured", ""])
            continue
        hint = ", a hint" if doubts(record) else ""
        told = f"the worst of {len(about)}: " if len(about) > MANY else ""
        for ratio in about[:1] if told else about:
            whom = f"{ratio.ours} / {ratio.against or ratio.what}"
            rows.append([*head, ratio.found, f"{ratio.verdict}{hint}", f"{told}{whom}"])
    return rows


def distance(ratio: Ratio) -> float:
    """How far above a goal: less is worse."""
    if ratio.at_least is not None:
        return ratio.value - ratio.at_least
    return (ratio.at_most or 0.0) - ratio.value


def section(found: Kept, picture: str) -> str:
    """A benchmark's part of the page."""
    name, record = found
    figures, ratios = read(dict(record))
    versions = {**record["versions"], "python": record["python"]}
    said = ", ".join(f"{library} {version}" for library, version in versions.items())
    commit = f"at `{record['commit'][:7]}`" if record["commit"] else "of no known commit"
    lines = [
        f"## {TITLES[name]}",
        "",
        f"`{record['command']}` {commit}, {record['date']}, {record['machine']}; {said}.",
        "",
    ]
    if name not in AS_A_TABLE:
        lines += [f"![{TITLES[name]}]({picture})", ""]
    if hints := doubts(record):
        lines += [f"**No more than a hint: {'; '.join(hints)}.**", ""]
    lines += [f"{record['equality']}.", ""]
    if ratios:
        lines += [markdown_table(ratio_rows(ratios, figures)), ""]
    lines += [markdown_table(figure_rows(figures)), ""]
    return "\n".join(lines)


def draw(figures: Sequence[Figure], path: Path) -> None:
    """A panel for each thing measured: a bar for each candidate, and its spread.

    Things of one unit that were measured of one candidate each share a panel.
    """
    panels: dict[str, list[tuple[str, Figure]]] = {}  # {title: (beside a bar, what it is)}
    whats = [figure.what for figure in figures]
    is_shared = len(set(whats)) == len(whats) and len({f.unit for f in figures}) == 1
    if is_shared:
        panels[_better(figures[0])] = [(_alone(figure), figure) for figure in figures]
    else:
        for figure in figures:
            title = f"{figure.what}: {_better(figure)}"
            panels.setdefault(title, []).append((figure.who, figure))
    heights = [len(bars) + 1 for bars in panels.values()]
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        canvas, axes = pyplot.subplots(
            len(panels),
            figsize=(9, 0.36 * sum(heights) + 0.5),
            gridspec_kw={"height_ratios": heights},
            squeeze=False,
            layout="constrained",
        )
        for axis, (title, bars) in zip(axes[:, 0], panels.items(), strict=True):
            _draw_bars(axis, bars)
            if is_shared:
                _draw_apart(axis, figures)
            axis.set_title(title)
        save(canvas, path)
        pyplot.close(canvas)


def _better(figure: Figure) -> str:
    unit = "seconds" if figure.unit == "s" else figure.unit
    return f"{unit} ({'more' if figure.is_more_better else 'less'} is better)"


def _alone(figure: Figure) -> str:
    """Beside a bar that stands for all of its thing."""
    return figure.what if figure.kind == "ours" else f"{figure.who}: {figure.what}"


def _draw_apart(axis: "Axes", figures: Sequence[Figure]) -> None:
    """Let different things be read beside each other, however unlike they are."""
    medians = [figure.median for figure in figures]
    if max(medians) > FAR_APART * min(medians) > 0:
        axis.set_xscale("log")
        least = min(min(figure.values) for figure in figures)
        axis.set_xlim(least / 2, 2.5 * max(max(figure.values) for figure in figures))
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _draw_bars(axis: "Axes", bars: Sequence[tuple[str, Figure]]) -> None:
    """One below the other, with their spreads, and their medians in figures."""
    places = range(len(bars))
    spreads = [spread(figure.values) for _, figure in bars]
    medians = [s.median for s in spreads]
    ends = [
        [s.median - s.least for s in spreads],
        [s.most - s.median for s in spreads],
    ]
    colors = [COLORS[figure.kind] for _, figure in bars]
    if bars[0][1].unit in NEAR_EACH_OTHER:
        axis.scatter(medians, places, color=colors)
        axis.errorbar(medians, places, xerr=ends, fmt="none", ecolor=MUTED)
        axis.set_ylim(-0.6, len(bars) - 0.4)
    else:
        axis.barh(places, medians, xerr=ends, color=colors, ecolor=MUTED, height=0.7)
        for place, s in zip(places, spreads, strict=True):
            axis.annotate(
                f"{s.median:,.0f}" if s.median >= 1000 else f"{s.median:.3g}",
                (s.most, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        axis.margins(x=0.12)
    axis.set_yticks(places, [name for name, _ in bars])
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.grid(visible=False, axis="y")
    axis.invert_yaxis()


def page(found: Sequence[Kept], pictures: str) -> str:
    """The whole page; pictures are named relative to it."""
    sections = [section(one, f"{pictures}/bench-{one.name}.svg") for one in found]
    return "\n".join(
        [
            "# What the benchmarks found",
            "",
            "Made by `python -m benchmarks page` from the newest record of each "
            "[benchmark](benchmarks.md); no number is typed by hand but "
            "[torchrun's](#how-long-a-job-stands-still), which was measured apart. *Times* "
            "are ours against the other by medians: above one, we win. Bars show medians "
            "(green: ours, gray: a peer's, yellow: a floor), lines the least and the most.",
            "",
            "## Reached and missed",
            "",
            markdown_table(goal_rows(found)),
            "",
            *sections,
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Draw the page; 1 if there is no record."""
    parser = argparse.ArgumentParser(prog="benchmarks page", description=__doc__)
    parser.add_argument("--records", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    flags = parser.parse_args(arguments[1:])
    found = newest(flags.records)
    if not found:
        print(f"no record in {flags.records}: run `make bench` first", file=sys.stderr)
        return 1
    for name, record in found:
        if name not in AS_A_TABLE:
            draw(read(dict(record))[0], flags.out / "images" / f"bench-{name}.svg")
    path = flags.out / "benchmarks-results.md"
    path.write_text(page(found, "images"), encoding="utf-8")
    print(path)
    return 0
