"""Models of what takes time: computing, pausing, networks, deaths; written as one word.

::

    fixed:0.1                every batch computes 0.1 s
    lognormal:0.1,0.3        median 0.1 s; the logarithm's standard deviation is 0.3
    straggler:0.1,4,0.2      0.1 s, and 4 times that with probability 0.2
    slow:0.1,4,1             0.1 s; for the first 1 trainer 4 times that, for ever
    quantiles:0.09,0.1,0.2   as measured: equally likely between neighbors

Draws are a function of (seed, trainer) alone, so that two paces are compared on the very
same luck.

Pure.
"""

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist

import msgspec

from paceline.errors import UsageError

Draw = Callable[[], float]
"""Draws the next duration, in seconds."""


_standard = NormalDist().inv_cdf  # of one number each: nothing is drawn and thrown away
_LEAST = 2.0**-53  # in the place of 0, of which there is none


class Fixed(msgspec.Struct, frozen=True, tag="fixed"):
    """Every batch computes equally long."""

    seconds: float

    def __post_init__(self) -> None:
        _require_seconds("fixed", self.seconds)

    def __str__(self) -> str:
        return f"fixed:{self.seconds:g}"


class Lognormal(msgspec.Struct, frozen=True, tag="lognormal"):
    """The logarithm is normal: never negative, with a long tail."""

    median_s: float
    sigma: float

    def __post_init__(self) -> None:
        _require_seconds("lognormal", self.median_s)
        _require("lognormal: sigma", self.sigma >= 0, "0 or more", self.sigma)

    def __str__(self) -> str:
        return f"lognormal:{self.median_s:g},{self.sigma:g}"


class Straggler(msgspec.Struct, frozen=True, tag="straggler"):
    """Every batch may be the slow one, whoever computes it."""

    seconds: float
    factor: float
    probability: float

    def __post_init__(self) -> None:
        _require_seconds("straggler", self.seconds)
        _require("straggler: factor", self.factor >= 1, "1 or more", self.factor)
        is_one = 0 <= self.probability <= 1
        _require("straggler: probability", is_one, "0 to 1", self.probability)

    def __str__(self) -> str:
        return f"straggler:{self.seconds:g},{self.factor:g},{self.probability:g}"


class Slow(msgspec.Struct, frozen=True, tag="slow"):
    """The first ``trainers`` trainers are slower, for ever."""

    seconds: float
    factor: float
    trainers: int

    def __post_init__(self) -> None:
        _require_seconds("slow", self.seconds)
        _require("slow: factor", self.factor >= 1, "1 or more", self.factor)
        _require("slow: trainers", self.trainers >= 0, "0 or more", self.trainers)

    def __str__(self) -> str:
        return f"slow:{self.seconds:g},{self.factor:g},{self.trainers}"


class Quantiles(msgspec.Struct, frozen=True, tag="quantiles"):
    """As measured: ``seconds`` are evenly spaced quantiles, from the least to the most."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        _require("quantiles", len(self.seconds) >= 2, "two or more", len(self.seconds))
        for seconds in self.seconds:
            _require_seconds("quantiles", seconds, least=0.0)
        is_sorted = list(self.seconds) == sorted(self.seconds)
        _require("quantiles", is_sorted, "from the least to the most", self.seconds)

    def __str__(self) -> str:
        return "quantiles:" + ",".join(f"{seconds:g}" for seconds in self.seconds)


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """As measured, trainer by trainer; with more trainers than that, in turn."""

    trainers: tuple[Quantiles, ...]

    def __post_init__(self) -> None:
        _require("measured: trainers", bool(self.trainers), "one or more", 0)


Compute = Fixed | Lognormal | Straggler | Slow | Quantiles | Measured


class Pauses(msgspec.Struct, frozen=True):
    """Before a batch, with ``probability``, a pause of ``mean_s`` on average."""

    probability: float
    mean_s: float

    def __post_init__(self) -> None:
        is_one = 0 <= self.probability <= 1
        _require("pause: probability", is_one, "0 to 1", self.probability)
        _require_seconds("pause", self.mean_s)


class Network(msgspec.Struct, frozen=True):
    """One way of a message, and bytes a second of each machine's cable, each way."""

    latency_s: float = 100e-6
    bytes_per_s: float = 1.25e9

    def __post_init__(self) -> None:
        _require_seconds("network: latency", self.latency_s, least=0.0)
        is_some = self.bytes_per_s > 0
        _require("network: bandwidth", is_some, "more than 0", self.bytes_per_s)


class Deaths(msgspec.Struct, frozen=True):
    """A process dies after ``mean_s`` (exponential); ``restart_s`` later one is back."""

    mean_s: float
    restart_s: float

    def __post_init__(self) -> None:
        _require_seconds("deaths", self.mean_s)
        _require_seconds("deaths: restart", self.restart_s, least=0.0)


def draw_compute(model: Compute, trainer: int, random: Random) -> Draw:
    """How long each batch of a trainer computes, one after the other.

    Args:
        model: what it follows.
        trainer: index of the trainer, from 0.
        random: of this trainer alone.
    """
    if isinstance(model, Measured):
        model = model.trainers[trainer % len(model.trainers)]
    if isinstance(model, Lognormal):
        mu, sigma, uniform = math.log(model.median_s), model.sigma, random.random
        return lambda: math.exp(mu + sigma * _standard(uniform() or _LEAST))
    if isinstance(model, Straggler):
        fast_s, slow_s = model.seconds, model.seconds * model.factor
        probability, uniform = model.probability, random.random
        return lambda: slow_s if uniform() < probability else fast_s
    if isinstance(model, Quantiles):
        seconds, uniform = model.seconds, random.random
        return lambda: _between(seconds, uniform())
    is_slow = isinstance(model, Slow) and trainer < model.trainers
    constant_s = model.seconds * (model.factor if is_slow else 1.0)  # type: ignore[union-attr]  # only Slow is slow
    return lambda: constant_s


def draw_pauses(model: Pauses, random: Random) -> Draw:
    """How long each pause before a batch lasts; mostly 0."""
    uniform, exponential, rate = random.random, random.expovariate, 1 / model.mean_s
    return lambda: exponential(rate) if uniform() < model.probability else 0.0


def mean_s(model: Compute, trainers: int) -> float:
    """What a batch computes on average over so many trainers."""
    if isinstance(model, Measured):
        own = [mean_s(model.trainers[n % len(model.trainers)], 1) for n in range(trainers)]
        return sum(own) / trainers
    if isinstance(model, Lognormal):
        return model.median_s * math.exp(model.sigma**2 / 2)
    if isinstance(model, Straggler):
        return model.seconds * (1 + model.probability * (model.factor - 1))
    if isinstance(model, Slow):
        slow = min(model.trainers, trainers)
        return model.seconds * (1 + slow / trainers * (model.factor - 1))
    if isinstance(model, Quantiles):
        inner, ends = sum(model.seconds[1:-1]), model.seconds[0] + model.seconds[-1]
        return (inner + ends / 2) / (len(model.seconds) - 1)
    return model.seconds


def _between(seconds: tuple[float, ...], share: float) -> float:
    place = share * (len(seconds) - 1)
    below = int(place)
    return seconds[below] + (place - below) * (seconds[below + 1] - seconds[below])


def _require_seconds(what: str, seconds: float, least: float = 1e-9) -> None:
    is_some = math.isfinite(seconds) and seconds >= least
    _require(what, is_some, "seconds, 0 or more" if least == 0 else "seconds > 0", seconds)


def _require(what: str, condition: bool, expected: str, got: object) -> None:
    if not condition:
        raise UsageError(f"{what}: expected {expected}, got {got}")
