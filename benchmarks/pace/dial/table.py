"""What an experiment has found: rows for people, and the numbers behind them.

Pure.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

NEVER = "never"


class Table(NamedTuple):
    """One experiment.

    Args:
        name: short, for files.
        title: for people.
        setting: what was the same for all rows.
        rows: the first is the head.
        values: {series: {where: value}}, as drawn and as kept.
        across: what ``where`` is.
        unit: of the values.
        doubts: what a reader must know before believing it, such as a best rate that lies
            at an end of the grid.
    """

    name: str
    title: str
    setting: str
    rows: list[list[str]]
    values: dict[str, dict[str, float]]
    across: str
    unit: str
    doubts: tuple[str, ...] = ()

    def record(self) -> dict[str, object]:
        """As it is kept; what never happened is null."""
        kept = self._asdict()
        kept["values"] = {
            series: {where: _finite(value) for where, value in points.items()}
            for series, points in self.values.items()
        }
        return kept


class Experiment(NamedTuple):
    """A table that can be made.

    Args:
        make: makes it, over so many seeds.
        picture: how it is drawn, see `benchmarks.pace.dial.drawing`.
    """

    make: Callable[[int], Table]
    picture: str


def told(value: float) -> str:
    """A count for people; ``never`` if it is infinite."""
    return f"{value:,.0f}" if math.isfinite(value) else NEVER


def told_s(seconds: float) -> str:
    """Seconds for people; ``never`` if they are infinite."""
    return f"{seconds:.1f}" if math.isfinite(seconds) else NEVER


def doubts_of(tuned: Sequence[tuple[str, float, bool]]) -> tuple[str, ...]:
    """Whose best rate lies at an end of the grid.

    Args:
        tuned: (who, its best rate, whether rates on both sides of it were tried).
    """
    return tuple(
        f"{who}: the best rate, {rate:.3g}, is at an end of the grid"
        for who, rate, is_inside in tuned
        if not is_inside
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
