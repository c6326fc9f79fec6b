"""What is measured while a forecast runs, and what it comes to.

Measured is from the first batch to the moment when no task is left to lease: later some
trainers have no work, which in a job of days is nothing and in a sample of it is much.

Pure: time is an argument.
"""

from collections import Counter
from typing import Literal, NamedTuple, final, get_args

Spell = Literal["computing", "paused", "servers", "coordinator", "without work", "other"]
"""What a trainer's time goes to.

``servers``: a push or a pull; ``coordinator``: it waits for its round, for its clock to be
let on, or for an answer.
"""
SPELLS: tuple[Spell, ...] = get_args(Spell)


class Ages(NamedTuple):
    """How old pushes were, in updates, when they were decided."""

    mean: float
    p50: int
    p90: int
    p99: int
    most: int


@final
class Gauge:
    """Counts of one forecast, and seconds that trainers' time went to."""

    def __init__(self) -> None:
        self.batches = 0  # that were begun, those computed in vain among them
        self.deaths: Counter[str] = Counter()  # {kind of role: times}
        self.outcomes: Counter[str] = Counter()  # {outcome: times}
        self.spells: dict[Spell, float] = dict.fromkeys(SPELLS, 0.0)
        self._ages: Counter[int] = Counter()  # {age: pushes}
        self._gaps: list[int] = []  # between the fastest and the slowest clock

    def aged(self, age: int) -> None:
        """A push is decided that was computed on values so many updates ago."""
        self._ages[age] += 1

    def spread(self, clocks: list[int]) -> None:
        """Clocks of the trainers that run, now."""
        if self.batches and clocks:
            self._gaps.append(max(clocks) - min(clocks))

    def ages(self) -> Ages:
        """How old pushes were."""
        total = self._ages.total()
        if not total:
            return Ages(0.0, 0, 0, 0, 0)
        mean = sum(age * times for age, times in self._ages.items()) / total
        p50, p90, p99 = (_quantile(self._ages, share * total) for share in (0.5, 0.9, 0.99))
        return Ages(mean, p50, p90, p99, max(self._ages))

    def gaps(self) -> tuple[float, int]:
        """Mean and largest gap between the fastest and the slowest clock."""
        gaps = self._gaps or [0]
        return sum(gaps) / len(gaps), max(gaps)


def _quantile(ages: Counter[int], place: float) -> int:
    seen = 0
    for age, times in sorted(ages.items()):
        seen += times
        if seen >= place:
            return age
    return 0
