"""How long batches compute, from the event log of a real run.

Lines ``computed`` hold, for each trainer, quantiles of what batches took to read and
compute, waiting for nobody. A trainer's lines become one distribution, each counting for as
many batches as it is of; trainers stay apart, since one may be slower for ever.

Pure.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from paceline.errors import UsageError
from paceline.simulate.forecast.models import Measured, Quantiles

QUANTILES = 21
_Line = tuple[int, tuple[float, ...]]  # (batches, quantiles)


def fit_compute(lines: Iterable[bytes], where: str) -> Measured:
    """Read the lines of an event log; those that cannot be read are left out.

    Args:
        lines: of ``events.jsonl``.
        where: named in the error.

    Raises:
        UsageError: no line tells how long batches took.
    """
    found: dict[str, list[_Line]] = {}  # {trainer: its lines}
    for line in lines:
        try:
            event = msgspec.json.decode(line, type=dict[str, Any])
            if event["event"] == "computed":
                seconds = tuple(float(value) for value in event["seconds"])
                told = (int(event["batches"]), Quantiles(seconds).seconds)
                found.setdefault(str(event["trainer"]), []).append(told)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, UsageError):
            continue
    if not found:
        raise UsageError(
            f"--fit: {where} does not tell how long batches took: expected lines "
            f"'computed', which a trainer writes every ten seconds and when it ends"
        )
    return Measured(tuple(_joined(told) for _, told in sorted(found.items())))


def _joined(lines: list[_Line]) -> Quantiles:
    """One distribution from several, each of which counts for its batches."""
    weighted = sorted(
        (value, batches / len(seconds)) for batches, seconds in lines for value in seconds
    )
    total = sum(weight for _, weight in weighted)
    places, seen = [], 0.0  # of each value: the middle of its share, 0 to 1
    for _, weight in weighted:
        places.append((seen + weight / 2) / total)
        seen += weight
    values = [value for value, _ in weighted]
    shares = [n / (QUANTILES - 1) for n in range(QUANTILES)]
    return Quantiles(tuple(_value_at(share, places, values) for share in shares))


def _value_at(share: float, places: list[float], values: list[float]) -> float:
    """The value at a share of all, straight between neighbors."""
    if share <= places[0]:
        return values[0]
    for n in range(1, len(places)):
        if share <= places[n]:
            step = (share - places[n - 1]) / (places[n] - places[n - 1])
            # Rounding may carry it past its neighbor, and quantiles ascend.
            return min(values[n], values[n - 1] + step * (values[n] - values[n - 1]))
    return values[-1]
