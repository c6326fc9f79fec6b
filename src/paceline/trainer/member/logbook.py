"""The user's numbers on their way to the coordinator: few messages, the last values win.

Pure.
"""

import math
from typing import final

from paceline.errors import UsageError

SEND_EVERY_S = 0.05


@final
class Logbook:
    """Numbers that were logged and not sent yet."""

    def __init__(self) -> None:
        self._numbers: dict[str, float | None] = {}
        self._noted_s: dict[str, float] = {}
        self._sent_s = -math.inf

    def add(self, numbers: dict[str, object], now: float) -> bool:
        """Note numbers; whether it is time to send (`take`).

        Raises:
            UsageError: a value is no number.
        """
        read = {name: _number(name, value) for name, value in numbers.items()}
        self._numbers |= read
        self._noted_s |= dict.fromkeys(read, now)
        return now - self._sent_s >= SEND_EVERY_S

    def take(self, now: float) -> tuple[dict[str, float | None], dict[str, float]]:
        """What is to be sent now, if anything, and the seconds that it has waited."""
        waited = {name: now - noted_s for name, noted_s in self._noted_s.items()}
        taken, self._numbers, self._noted_s = self._numbers, {}, {}
        self._sent_s = now
        return taken, {name: age for name, age in waited.items() if age > 0}


def _number(name: str, value: object) -> float | None:
    """The value as a float; None if it is not finite (JSON has no word for it)."""
    item = getattr(value, "item", None)  # tensors and arrays of one element
    try:
        number = float(item() if callable(item) else value)  # type: ignore[arg-type]  # whatever cannot be one raises
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"log: {name} must be a number, got {value!r}") from None
    return number if math.isfinite(number) else None
