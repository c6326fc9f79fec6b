"""What a benchmark has found: figures with their spread, ratios with their goals.

::

    Figure   what was measured of whom: ours, a peer, or a floor that nobody can beat
    Ratio    ours against a peer or a floor; `at_least` or `at_most` is wanted of it

All benchmarks keep both in their record under the same names, so that `benchmarks.page` can
draw any of them.

Pure.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from benchmarks.record import spread, table

COUNTS = ("messages", "round trips", "KiB")  # units of what is the same in every run

Kind = Literal["ours", "peer", "floor"]


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


class Ratio(NamedTuple):
    """Ours against somebody else's.

    Args:
        what: as in the figures.
        ours: the candidate of ours.
        against: the other candidate.
        value: how many times.
        at_least: what is wanted; None: nothing was promised.
        at_most: the same from the other side.
    """

    what: str
    ours: str
    against: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

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


def times_better(ours: Figure, other: Figure) -> float:
    """How many times better ours is by its median: above one, we win."""
    first, second = ours.median, other.median
    return first / second if ours.is_more_better else second / first


def compared(
    ours: Figure,
    other: Figure,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Ratio:
    """The ratio of two figures of the same thing, as `times_better` has it."""
    assert ours.what == other.what, f"{ours.what!r} is not {other.what!r}"
    value = times_better(ours, other)
    return Ratio(ours.what, ours.who, other.who, value, at_least, at_most)


def figure_table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    rows = [["", "", "unit", "median", "least", "most", "runs"]]
    for figure in figures:
        s = spread(figure.values)
        cells = [number(value) for value in s[:3]]
        rows.append([figure.what, figure.who, figure.unit, *cells, str(s.times)])
    return table(rows)


def ratio_table(ratios: Sequence[Ratio]) -> str:
    """The ratios for people; above one, we win."""
    rows = [["", "ours", "against", "times as good", "goal", ""]]
    for ratio in ratios:
        value = f"{ratio.value:.2f}"
        rows.append(
            [ratio.what, ratio.ours, ratio.against, value, ratio.goal, ratio.verdict]
        )
    return table(rows)


def number(value: float) -> str:
    """Three digits that count, or all of a large one: 0.0123, 4.56, 12,345."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def kept(
    figures: Sequence[Figure], ratios: Sequence[Ratio], equality: str, *, is_equal: bool
) -> dict[str, object]:
    """What a record holds of them.

    Args:
        figures: all.
        ratios: all.
        equality: what was compared before any clock ran, in words.
        is_equal: whether it was equal; if not, no ratio counts.
    """
    return {
        "figures": [figure._asdict() for figure in figures],
        "ratios": [ratio._asdict() for ratio in ratios],
        "equality": equality,
        "is_equal": is_equal,
    }


def read(record: dict[str, Any]) -> tuple[list[Figure], list[Ratio]]:
    """Figures and ratios of a record that `kept` made."""
    figures = [
        Figure(**{**found, "values": tuple(found["values"])}) for found in record["figures"]
    ]
    return figures, [Ratio(**found) for found in record["ratios"]]
