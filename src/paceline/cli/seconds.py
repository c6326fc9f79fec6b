"""Durations as they are typed: ``60s``, ``500ms``, ``2m``, ``1h``; bare, seconds.

Pure.
"""

import re

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
