"""What a real run tells of computing, pauses and deaths, from its event log.

::

    computed      quantiles of what batches of a trainer took to read, compute and step on,
                  waiting for nobody. A trainer's lines become one distribution, each
                  counting for as many batches as it is of; trainers stay apart, since one
                  may be slower for ever. Behind the last quantile but one batches are taken
                  to be exponential, such that the mean of all is as told: a straight line
                  to the longest would make a twentieth of all batches far too long
    pauses        where the longest batch of a line took `PAUSE` times as long as all but a
                  twentieth: that twentieth is as long as the others, and what the mean
                  has more is so many pauses that one of them was as long as the longest
    deaths        lives are from joining to being lost; a mean of all, trainers and servers,
                  those that did not end counting with what they have lived

Pure.
"""

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, final

import msgspec

from paceline.errors import UsageError
from paceline.forecast.models import Deaths, Measured, Pauses, Quantiles

QUANTILES = 101  # of the model; more than a line has, since lines differ
PAUSE = 4.0
_POINTS = 6  # that stand for the batches between two quantiles of a line


class _Line(NamedTuple):
    """What one line tells.

    ``tail_s``: how much longer than the last quantile but one are those behind it, on
    average.
    """

    batches: int
    seconds: tuple[float, ...]
    tail_s: float


class Fitted(NamedTuple):
    """Models as a run says; None: that never happened in it."""

    compute: Measured
    pauses: Pauses | None
    deaths: Deaths | None

    def __str__(self) -> str:
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
    """Read the lines of an ``events.jsonl``; those that cannot be read are left out.

    Raises:
        UsageError: no line tells how long batches took.
    """
    fitted = fit_events(_events(lines))
    if fitted is None:
        raise UsageError(
            f"--fit: {where} does not tell how long batches took: expected lines "
            f"'computed', which a trainer writes every ten seconds and when it ends"
        )
    return fitted


def fit_events(events: Iterable[dict[str, Any]]) -> Fitted | None:
    """The same of events; None: none tells how long batches took."""
    found: dict[str, list[_Line]] = {}  # {trainer: its lines}
    lives, pauses = _Lives(), _Pauses()
    for event in events:
        try:
            lives.note(event)
            if event["event"] == "computed":
                told = pauses.without(_line(event))
                found.setdefault(str(event["trainer"]), []).append(told)
        except (KeyError, TypeError, ValueError, UsageError):
            continue
    if not found:
        return None
    compute = Measured(tuple(_joined(told) for _, told in sorted(found.items())))
    return Fitted(compute, pauses.model(), lives.model())


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=dict[str, Any])


@final
class _Pauses:
    """Batches that took far longer than the others of their line."""

    def __init__(self) -> None:
        self._batches = self._count = 0
        self._total_s = 0.0

    def without(self, line: _Line) -> _Line:
        """A line without its pauses, if it has any."""
        self._batches += line.batches
        *_, usual_s, longest_s = line.seconds
        behind = line.batches / (len(line.seconds) - 1)
        if line.batches < len(line.seconds) or longest_s < PAUSE * usual_s:
            return line
        total_s = behind * line.tail_s
        # Of n exponential pauses the longest is 1 + 1/2 + ... + 1/n times their mean.
        count, longest = 1, 1.0
        while count < behind and count / longest < total_s / (longest_s - usual_s):
            count += 1
            longest += 1 / count
        self._count += count
        self._total_s += total_s
        return _Line(line.batches, (*line.seconds[:-1], usual_s), 0.0)

    def model(self) -> Pauses | None:
        """How often, and how long on average; None if there was none."""
        if not self._count or self._total_s <= 0:
            return None
        return Pauses(self._count / self._batches, self._total_s / self._count)


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
        (value, line.batches / (_POINTS * (len(line.seconds) - 1)))
        for line in lines
        for value in _points(line)
    )
    total = sum(weight for _, weight in weighted)
    places, seen = [], 0.0  # of each value: the middle of its share, 0 to 1
    for _, weight in weighted:
        places.append((seen + weight / 2) / total)
        seen += weight
    values = [value for value, _ in weighted]
    shares = [n / (QUANTILES - 1) for n in range(QUANTILES)]
    return Quantiles(tuple(_value_at(share, places, values) for share in shares))


def _line(event: dict[str, Any]) -> _Line:
    batches, told = int(event["batches"]), (float(value) for value in event["seconds"])
    seconds = Quantiles(tuple(told)).seconds
    between = len(seconds) - 1
    inner_s = sum(seconds[1:-2]) + (seconds[0] + seconds[-2]) / 2 if between > 1 else 0.0
    tail_s = float(event["mean_s"]) * between - inner_s - seconds[-2]
    return _Line(batches, seconds, min(max(0.0, tail_s), seconds[-1] - seconds[-2]))


def _points(line: _Line) -> list[float]:
    """Durations that stand for a line's batches, equally many between two quantiles."""
    shares = [(n + 0.5) / _POINTS for n in range(_POINTS)]
    points = [
        below + share * (above - below)
        for below, above in itertools.pairwise(line.seconds[:-1])
        for share in shares
    ]
    *_, least_s, longest_s = line.seconds
    tail = [least_s - line.tail_s * math.log(1 - share) for share in shares]
    return points + [min(longest_s, value) for value in tail]


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
