"""Models as they are written on the command line, and back.

Pure.
"""

import math
import re

from paceline.errors import UsageError
from paceline.forecast.models.models import (
    Compute,
    Deaths,
    Fixed,
    Lognormal,
    Network,
    Pauses,
    Quantiles,
    Slow,
    Straggler,
)

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
