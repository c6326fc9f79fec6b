"""How often, as it is typed: ``60s``, ``1000steps``, ``off``.

Pure.
"""

import re
from typing import NamedTuple

from paceline.cli.seconds import parse_seconds
from paceline.errors import UsageError


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
