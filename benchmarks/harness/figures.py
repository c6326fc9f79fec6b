"""What a benchmark has found: figures with their spread, ratios with their goals.

::

    Figure   what was measured of whom: ours, a peer, or a floor that nobody can beat
    Ratio    ours against a peer or a floor, or an amount; `harness.goals` says what
             is wanted of it

All benchmarks keep both in their record under the same names, so that `benchmarks page` can
draw any of them.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple, TypeVar

from benchmarks.harness.goals import TIMES, wanted
from benchmarks.harness.record import spread

COUNTS = ("messages", "round trips", "KiB")  # units of what is the same in every run
PLACES = {TIMES: 2, "AUC": 4}  # {unit: digits behind the point}

Kind = Literal["ours", "peer", "floor"]
Candidate = TypeVar("Candidate")


class Figure(NamedTuple):
    """Repeated measurements of one thing.

    Args:
        what: was measured, the same words for all candidates.
        who: the candidate.
        kind: of the candidate.
        unit: of the values.
        values: one for each run.
        is_more_better: a rate; else a time or a count.
    """

    what: str
    who: str
    kind: Kind
    unit: str
    values: tuple[float, ...]
    is_more_better: bool = False

    @property
    def median(self) -> float:
        """Of the runs."""
        return spread(self.values).median


class Measure(NamedTuple):
    """What is read off every run.

    Args:
        what, unit, is_more_better: as in a `Figure`.
        of: a run's value.
    """

    what: str
    unit: str
    of: Callable[[Any], float]
    is_more_better: bool = False


def measured(
    runs: Mapping[Candidate, Sequence[object]],
    *measures: Measure,
    who: Callable[[Candidate], str] = str,
    kind: Callable[[Candidate], Kind] = lambda _: "ours",
) -> list[Figure]:
    """A figure of each measure and each candidate, in their order.

    Args:
        runs: of each.
        measures: what of them.
        who: a candidate's name.
        kind: and what it is.
    """
    return [
        Figure(what, who(one), kind(one), unit, tuple(map(of, found)), is_more_better)
        for what, unit, of, is_more_better in measures
        for one, found in runs.items()
    ]


def medians(
    runs: Mapping[Candidate, Sequence[Any]], of: Callable[[Any], float]
) -> dict[Candidate, float]:
    """{candidate: the median of its runs}."""
    return {one: median(map(of, found)) for one, found in runs.items()}


class Ratio(NamedTuple):
    """Ours against somebody else's, or an amount that a goal is about.

    Args:
        what: as in the figures.
        ours: the candidate of ours.
        against: the other candidate; empty for an amount.
        value: how many times, or how much.
        at_least: what is wanted; None: nothing was promised.
        at_most: the same from the other side.
        unit: of the value.
        goal_name: in the table of goals; empty without one.
    """

    what: str
    ours: str
    against: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = TIMES
    goal_name: str = ""

    @property
    def found(self) -> str:
        """The value for people: ``1.65 times``, ``0.31 ms``."""
        return f"{amount(self.value, self.unit)} {self.unit}"

    @property
    def goal(self) -> str:
        """For people."""
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}" if self.at_most is not None else ""

    @property
    def verdict(self) -> str:
        """``reached``, ``missed``, or empty without a goal."""
        if self.at_least is not None:
            return "reached" if self.value >= self.at_least else "missed"
        if self.at_most is not None:
            return "reached" if self.value <= self.at_most else "missed"
        return ""


class Found(NamedTuple):
    """What a benchmark has found.

    Args:
        figures: all.
        ratios: ours against peers and floors, and amounts with a goal.
        told: what was compared before any clock ran, in words.
        is_equal: whether it was equal; if not, no ratio counts.
        tables: what else there is to print, before the figures.
        more: what else the record holds.
    """

    figures: Sequence[Figure]
    ratios: Sequence[Ratio]
    told: str
    is_equal: bool = True
    tables: Sequence[str] = ()
    more: Mapping[str, object] = {}


def times_better(ours: Figure, other: Figure) -> float:
    """How many times better ours is by its median: above one, we win."""
    first, second = ours.median, other.median
    return first / second if ours.is_more_better else second / first


def compared(ours: Figure, other: Figure, goal: str = "") -> Ratio:
    """The ratio of two figures of the same thing, as `times_better` has it.

    With a goal's name it is judged.
    """
    assert ours.what == other.what, f"{ours.what!r} is not {other.what!r}"
    ratio = Ratio(ours.what, ours.who, other.who, times_better(ours, other))
    return _aimed(ratio, goal) if goal else ratio


def judged(
    figure: Figure, goal: str, amount: float | None = None, against: str = ""
) -> Ratio:
    """An amount in a goal's own unit: a figure's median, or one that was worked out."""
    value = figure.median if amount is None else amount
    return _aimed(Ratio(figure.what, figure.who, against, value), goal)


def _aimed(ratio: Ratio, name: str) -> Ratio:
    goal = wanted(name)
    return ratio._replace(
        at_least=goal.at_least, at_most=goal.at_most, unit=goal.unit, goal_name=goal.name
    )


def figure_rows(figures: Sequence[Figure]) -> list[list[str]]:
    """A head, then medians and ends."""
    rows = [["", "", "unit", "median", "least", "most", "runs"]]
    for figure in figures:
        s = spread(figure.values)
        cells = [amount(value, figure.unit) for value in s[:3]]
        rows.append([figure.what, figure.who, figure.unit, *cells, str(s.times)])
    return rows


def ratio_rows(ratios: Sequence[Ratio], figures: Sequence[Figure]) -> list[list[str]]:
    """A head, then how many times as good, goal and verdict; above one, we win.

    Where we lose to a peer it is said. Against a floor nobody wins: it says how far there
    is to go.
    """
    kinds = {figure.who: figure.kind for figure in figures}
    rows = [["", "ours", "against", "found", "goal", ""]]
    for ratio in ratios:
        kind = kinds.get(ratio.against, "peer" if ratio.against else "")
        is_lost = kind == "peer" and ratio.value < 1
        told = {"floor": "floor", "peer": "we lose" if is_lost else ""}.get(kind, "")
        verdict = ratio.verdict or told
        cells = [ratio.what, ratio.ours, ratio.against, ratio.found, ratio.goal, verdict]
        rows.append(cells)
    return rows


def amount(value: float, unit: str) -> str:
    """A value as its unit wants it: ratios and shares have fixed places."""
    places = PLACES.get(unit)
    # Adding zero takes the sign off a zero.
    return number(value) if places is None else f"{round(value, places) + 0.0:.{places}f}"


def number(value: float) -> str:
    """Three digits that count, or all of a large one: 0.0123, 4.56, 12,345."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def kept(found: Found) -> dict[str, object]:
    """What a record holds of it."""
    return {
        **found.more,
        "figures": [figure._asdict() for figure in found.figures],
        "ratios": [ratio._asdict() for ratio in found.ratios],
        "equality": found.told,
        "is_equal": found.is_equal,
    }


def read(record: dict[str, Any]) -> tuple[list[Figure], list[Ratio]]:
    """Figures and ratios of a record that `kept` made."""
    figures = [
        Figure(**{**found, "values": tuple(found["values"])}) for found in record["figures"]
    ]
    return figures, [Ratio(**found) for found in record["ratios"]]
