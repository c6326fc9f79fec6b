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
import re
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
    """How long each batch of a trainer, counted from 0, computes, one after the other."""
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


_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1.0,
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
_BITS = {"Mbit": 1e6 / 8, "Gbit": 1e9 / 8}
_NUMBER = re.compile(r"([0-9.eE+-]+?)\s*([A-Za-z]*)")


def parse_compute(option: str, text: str) -> Compute:
    """Read how long a batch computes, e.g. ``lognormal:0.1,0.3``.

    Raises:
        UsageError: unknown model, or a number is missing or out of range.
    """
    name, _, rest = text.partition(":")
    values = [value.strip() for value in rest.split(",")] if rest else []
    if name == "quantiles":
        return Quantiles(tuple(parse_seconds(option, value) for value in values))
    forms: dict[str, str] = {
        "fixed": "SECONDS",
        "lognormal": "MEDIAN,SIGMA",
        "straggler": "SECONDS,FACTOR,PROBABILITY",
        "slow": "SECONDS,FACTOR,TRAINERS",
    }
    if name not in forms:
        raise UsageError(
            f"{option}: expected {', '.join(forms)} or quantiles, and its numbers, like "
            f"lognormal:0.1,0.3; got {text!r}"
        )
    if len(values) != forms[name].count(",") + 1:
        raise UsageError(f"{option}: expected {name}:{forms[name]}, got {text!r}")
    seconds = parse_seconds(option, values[0])
    numbers = [_number(option, value) for value in values[1:]]
    if name == "fixed":
        return Fixed(seconds)
    if name == "lognormal":
        return Lognormal(seconds, *numbers)
    if name == "straggler":
        return Straggler(seconds, *numbers)
    if not numbers[1].is_integer():
        raise UsageError(f"{option}: expected a whole number of trainers, got {text!r}")
    return Slow(seconds, numbers[0], int(numbers[1]))


def parse_pauses(option: str, text: str) -> Pauses:
    """Read who pauses: ``0.01,5s``, with probability 0.01 before a batch, 5 s on average.

    Raises:
        UsageError: it is not two numbers, or one is out of range.
    """
    probability, mean = _two(option, text, "PROBABILITY,SECONDS, like 0.01,5s")
    return Pauses(_number(option, probability), parse_seconds(option, mean))


def parse_network(option: str, text: str) -> Network:
    """Read latency and bandwidth: ``100us,10Gbit``, or bytes a second as ``1.2GB``.

    Raises:
        UsageError: it is not two numbers, or one is out of range.
    """
    latency, bandwidth = _two(option, text, "LATENCY,BANDWIDTH, like 100us,10Gbit")
    per_s = bandwidth.removesuffix("/s")
    return Network(
        parse_seconds(option, latency), _scaled(option, per_s, {**_BYTES, **_BITS}, "bytes")
    )


def parse_deaths(option: str, text: str) -> Deaths:
    """Read how often one process dies and how long it is away: ``10h,30s``.

    Raises:
        UsageError: it is not two durations, or one is out of range.
    """
    mean, restart = _two(option, text, "MEAN,RESTART, like 10h,30s")
    return Deaths(parse_seconds(option, mean), parse_seconds(option, restart))


def parse_bytes(option: str, text: str) -> int:
    """Read a number of bytes: ``4000``, ``4MB``, ``1GiB``.

    Raises:
        UsageError: it is none.
    """
    return int(_scaled(option, text, _BYTES, "bytes"))


def parse_seconds(option: str, text: str) -> float:
    """Read a duration: ``0.1``, ``100us``, ``5ms``, ``2m``, ``10h``, ``3d``.

    Raises:
        UsageError: it is none.
    """
    return _scaled(option, text, _SECONDS, "a duration")


def _scaled(option: str, text: str, units: dict[str, float], what: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2] not in units:
        named = ", ".join(unit for unit in units if unit)
        raise UsageError(f"{option}: expected {what} ({named}), got {text!r}")
    return _number(option, found[1]) * units[found[2]]


def _number(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{option}: expected a number, got {text!r}")
    return number


def _two(option: str, text: str, form: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not comma:
        raise UsageError(f"{option}: expected {form}, got {text!r}")
    return first.strip(), second.strip()
