"""What a real run tells of computing, pauses and deaths, from its event log.

::

    computed      quantiles of what batches of a trainer took to read and compute, waiting
                  for nobody. A trainer's lines become one distribution, each counting for
                  as many batches as it is of; trainers stay apart, since one may be slower
                  for ever
    a pause       the longest batch of such a line, if it took `PAUSE` times as long as all
                  but a twentieth: once in so many batches. It is taken out of the
                  distribution, which would make a twentieth of them of it
    deaths        lives are from joining to being lost; a mean of all, trainers and servers,
                  those that did not end counting with what they have lived

Pure.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, final

import msgspec

from paceline.errors import UsageError
from paceline.simulate.forecast.models import Deaths, Measured, Pauses, Quantiles

QUANTILES = 21
PAUSE = 4.0
_Line = tuple[int, tuple[float, ...]]  # (batches, quantiles)


class Fitted(NamedTuple):
    """Models as a run says; None: that never happened in it."""

    compute: Measured
    pauses: Pauses | None
    deaths: Deaths | None

    def __str__(self) -> str:
        """Read like ``3 trainers that compute, 2 deaths ...``."""
        told = [f"how {len(self.compute.trainers)} trainers compute"]
        if self.pauses is not None:
            mean_s, share = self.pauses.mean_s, self.pauses.probability
            told.append(f"pauses of {mean_s:.3g} s before {share:.2%} of batches")
        if self.deaths is not None:
            deaths = self.deaths
            told.append(
                f"lives of {deaths.mean_s:,.0f} s, back after {deaths.restart_s:.3g} s"
            )
        return "; ".join(told)


def fit(lines: Iterable[bytes], where: str) -> Fitted:
    """Read the lines of an event log; those that cannot be read are left out.

    Args:
        lines: of ``events.jsonl``.
        where: named in the error.

    Raises:
        UsageError: no line tells how long batches took.
    """
    found: dict[str, list[_Line]] = {}  # {trainer: its lines}
    lives, pauses = _Lives(), _Pauses()
    for line in lines:
        try:
            event = msgspec.json.decode(line, type=dict[str, Any])
            lives.note(event)
            if event["event"] == "computed":
                seconds = tuple(float(value) for value in event["seconds"])
                batches = int(event["batches"])
                told = (batches, pauses.without(batches, Quantiles(seconds).seconds))
                found.setdefault(str(event["trainer"]), []).append(told)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, UsageError):
            continue
    if not found:
        raise UsageError(
            f"--fit: {where} does not tell how long batches took: expected lines "
            f"'computed', which a trainer writes every ten seconds and when it ends"
        )
    compute = Measured(tuple(_joined(told) for _, told in sorted(found.items())))
    return Fitted(compute, pauses.model(), lives.model())


@final
class _Pauses:
    """Batches that took far longer than the others of their line."""

    def __init__(self) -> None:
        self._batches = 0
        self._excess_s: list[float] = []

    def without(self, batches: int, seconds: tuple[float, ...]) -> tuple[float, ...]:
        """A line's quantiles without its pause, if it has one."""
        self._batches += batches
        rest, longest_s = seconds[:-1], seconds[-1]
        if batches < QUANTILES or longest_s < PAUSE * rest[-1]:
            return seconds
        self._excess_s.append(longest_s - rest[len(rest) // 2])
        return (*rest, rest[-1])

    def model(self) -> Pauses | None:
        """How often, and how long on average; None if there was none."""
        count = len(self._excess_s)
        if not count:
            return None
        return Pauses(count / self._batches, sum(self._excess_s) / count)


@final
class _Lives:
    """Who lives and who is away, as far as the log has been read."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # {role: when it joined}
        self._away: dict[str, float] = {}  # {role: when it was lost}
        self._lived_s = self._away_s = self._now = 0.0
        self._deaths = self._returns = 0

    def note(self, event: dict[str, Any]) -> None:
        """Read one line; the latest so far."""
        # A machine's clock may be set back.
        now = self._now = max(self._now, float(event["t"]))
        name = event["event"]
        role = str(event.get("trainer") or event.get("server") or "")
        if name in {"TrainerJoined", "ServerJoined"}:
            if role in self._away:
                self._away_s += now - self._away.pop(role)
                self._returns += 1
            self._since[role] = now
        elif name in {"TrainerLost", "ServerLost", "TrainerLeft"} and role in self._since:
            self._lived_s += now - self._since.pop(role)
            # Whose lease was taken for want of progress has not died, nor who has left.
            if name != "TrainerLeft" and event["kind"] != "expired":
                self._deaths += 1
                self._away[role] = now

    def model(self) -> Deaths | None:
        """How long one lives, and is away; None if nobody has died."""
        if not self._deaths:
            return None
        lived_s = self._lived_s + sum(self._now - since for since in self._since.values())
        away_s = self._away_s + sum(self._now - since for since in self._away.values())
        return Deaths(max(lived_s, 1e-3) / self._deaths, away_s / max(1, self._returns))


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
