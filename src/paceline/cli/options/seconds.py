"""Durations as they are typed: ``60s``, ``500ms``, ``2m``, ``1h``; bare, seconds.

And how often: one of these, ``1000steps``, ``off``.

Pure.
"""

import re
from typing import NamedTuple

from paceline.errors import UsageError

_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(option: str, text: str) -> float:
    """Read a duration, the value of an option.

    Raises:
        UsageError: it is no duration.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", text.strip())
    if found is None:
        raise UsageError(
            f"{option}: expected a duration like 60s, 500ms or 2m, got {text!r}"
        )
    number, unit = found.groups(default="")
    return float(number) * _UNITS_S[unit]


class Every(NamedTuple):
    """Seconds or steps between two cuts; both 0: none."""

    seconds: float = 0.0
    steps: int = 0


def parse_every(option: str, text: str) -> Every:
    """Read how often something is to be done; ``0`` is ``off``.

    Raises:
        UsageError: it is neither a duration, nor a number of steps, nor ``off``.
    """
    found = re.fullmatch(r"(\d+)\s*steps?", text.strip())
    if found is not None:
        return Every(steps=int(found[1]))
    if text.strip() == "off":
        return Every()
    try:
        return Every(seconds=parse_seconds(option, text))
    except UsageError:
        raise UsageError(
            f"{option}: expected a duration like 60s, a number of steps like 1000steps, "
            f"or off, got {text!r}"
        ) from None
