"""The user's numbers, as they were noted last, by whichever trainer.

A trainer sends at most every 50 ms, and what it noted in between only when it logs again
or its loop ends: perhaps long after the others have noted newer values. So each number
comes with how long it has waited, and one that is older than what is known changes nothing.

Pure.
"""

from collections.abc import Mapping
from typing import final


@final
class Metrics:
    """The last value of each name."""

    def __init__(self) -> None:
        """Nothing yet."""
        # {name: (when it was noted, its value)}
        self._noted: dict[str, tuple[float, float | None]] = {}

    def note(
        self, numbers: Mapping[str, float | None], ages_s: Mapping[str, float], now: float
    ) -> None:
        """Take numbers, except where a newer one is known.

        Args:
            numbers: {name: value}; what is not finite is None.
            ages_s: {name: how long it has waited to be sent}; not there: no time.
            now: when they came.
        """
        for name, value in numbers.items():
            noted_s = now - ages_s.get(name, 0.0)
            known = self._noted.get(name)
            if known is None or known[0] <= noted_s:
                self._noted[name] = noted_s, value

    def last(self) -> dict[str, float | None]:
        """{name: value}, a copy."""
        return {name: value for name, (_, value) in self._noted.items()}
