"""What a benchmark has found: figures with their spread, ratios with their goals.

::

    Figure   what was measured of whom: ours, a peer, or a floor that nobody can beat
    Ratio    ours against a peer or a floor, or an amount; `harness.goals` says what
             is wanted of it
    Profile  where one act's time goes, from a run that is not timed otherwise

All benchmarks keep both in their record under the same names, so that `benchmarks page` can
draw any of them.

Pure.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from benchmarks.harness.goals import TIMES, Goal
from benchmarks.harness.record import spread, table

COUNTS = ("messages", "round trips", "KiB")  # units of what is the same in every run
PLACES = {TIMES: 2, "AUC": 4}  # {unit: digits behind the point}

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


class Profile(NamedTuple):
    """Where the time of one act goes.

    Args:
        what: the act.
        unit: of the phases.
        phases: {phase: how long, of one act}.
    """

    what: str
    unit: str
    phases: dict[str, float]

    @property
    def total(self) -> float:
        """All phases together."""
        return sum(self.phases.values())

    def rows(self) -> list[list[str]]:
        """A head, the phases from the longest with their shares, and the sum."""
        rows = [[self.what, self.unit, "share"]]
        for name, spent in sorted(self.phases.items(), key=lambda item: -item[1]):
            rows.append([name, number(spent), f"{100 * spent / self.total:.0f} %"])
        return [*rows, ["together", number(self.total), ""]]


def times_better(ours: Figure, other: Figure) -> float:
    """How many times better ours is by its median: above one, we win."""
    first, second = ours.median, other.median
    return first / second if ours.is_more_better else second / first


def compared(ours: Figure, other: Figure, goal: Goal | None = None) -> Ratio:
    """The ratio of two figures of the same thing, as `times_better` has it."""
    assert ours.what == other.what, f"{ours.what!r} is not {other.what!r}"
    ratio = Ratio(ours.what, ours.who, other.who, times_better(ours, other))
    return ratio if goal is None else _aimed(ratio, goal)


def judged(figure: Figure, goal: Goal, amount: float | None = None) -> Ratio:
    """An amount in a goal's own unit: a figure's median, or one that was worked out."""
    value = figure.median if amount is None else amount
    return _aimed(Ratio(figure.what, figure.who, "", value), goal)


def _aimed(ratio: Ratio, goal: Goal) -> Ratio:
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


def figure_table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    return table(figure_rows(figures))


def ratio_table(ratios: Sequence[Ratio]) -> str:
    """The ratios for people; above one time as good, we win."""
    rows = [["", "ours", "against", "found", "goal", ""]]
    rows += [[r.what, r.ours, r.against, r.found, r.goal, r.verdict] for r in ratios]
    return table(rows)


def profile_table(profile: Profile) -> str:
    """A profile for people."""
    return table(profile.rows())


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


def kept(
    figures: Sequence[Figure],
    ratios: Sequence[Ratio],
    equality: str,
    *,
    is_equal: bool,
    profiles: Sequence[Profile] = (),
) -> dict[str, object]:
    """What a record holds of them.

    Args:
        figures: all.
        ratios: all.
        equality: what was compared before any clock ran, in words.
        is_equal: whether it was equal; if not, no ratio counts.
        profiles: where ours spends its time; perhaps none.
    """
    return {
        "figures": [figure._asdict() for figure in figures],
        "ratios": [ratio._asdict() for ratio in ratios],
        "equality": equality,
        "is_equal": is_equal,
        "profiles": [profile._asdict() for profile in profiles],
    }


def read(record: dict[str, Any]) -> tuple[list[Figure], list[Ratio]]:
    """Figures and ratios of a record that `kept` made."""
    figures = [
        Figure(**{**found, "values": tuple(found["values"])}) for found in record["figures"]
    ]
    return figures, [Ratio(**found) for found in record["ratios"]]


def read_profiles(record: dict[str, Any]) -> list[Profile]:
    """Profiles of a record that `kept` made."""
    return [Profile(**found) for found in record.get("profiles", ())]
