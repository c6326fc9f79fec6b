"""Numbers over time, of which a bounded number is kept: less of them, never none.

Pure.
"""

from typing import NamedTuple, final

MOST_POINTS = 2400  # more than a screen has dots


class Points(NamedTuple):
    """Points from the ``first`` on, after so many ``halvings``: before one, others."""

    halvings: int
    first: int
    seconds: list[float]
    values: list[float]


@final
class Series:
    """Points in the order of time; four become their least and their most, once full."""

    def __init__(self, smoothed_s: float = 0.0, most: int = MOST_POINTS) -> None:
        """Nothing is known yet; values within ``smoothed_s`` become their mean."""
        self._smoothed_s, self._most = smoothed_s, most
        self._open: list[float] = []  # values of a point that is not complete yet
        self._open_s = 0.0
        self._halvings = 0
        self._seconds: list[float] = []
        self._values: list[float] = []

    def __len__(self) -> int:
        """So many are kept."""
        return len(self._seconds)

    def add(self, seconds: float, value: float) -> None:
        """Another point, later than all that are there."""
        if self._open and seconds - self._open_s >= self._smoothed_s:
            self.complete()
        if not self._open:
            self._open_s = seconds
        self._open.append(value)
        if not self._smoothed_s:
            self.complete()

    def complete(self) -> None:
        """What has come is a point, though more may come that belongs to it."""
        if not self._open:
            return
        seconds, value = self._open_s, sum(self._open) / len(self._open)
        self._open.clear()
        if len(self._seconds) >= self._most:
            self._halve()
        self._seconds.append(round(seconds, 2))
        self._values.append(value)

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self._values[-1] if self._values else None

    def since(self, halvings: int, first: int) -> Points:
        """What is new to who knows points up to ``first``, after so many halvings."""
        first = first if halvings == self._halvings else 0
        return Points(self._halvings, first, self._seconds[first:], self._values[first:])

    def _halve(self) -> None:
        kept = []
        for n in range(0, len(self._seconds), 4):
            block = range(n, min(n + 4, len(self._seconds)))
            least = min(block, key=lambda k: self._values[k])
            most = max(block, key=lambda k: self._values[k])
            kept += sorted({least, most})
        self._seconds = [self._seconds[k] for k in kept]
        self._values = [self._values[k] for k in kept]
        self._halvings += 1
