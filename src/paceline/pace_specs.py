"""Paces as they are written: how tightly trainers march together.

Frozen, checked when they are made, the same on every machine; `str` writes one as the
command line takes it and `parse_pace` reads it back. What they mean, `paceline.pace` says.
"""

from typing import Literal, get_args

import msgspec

from paceline.codec_names import require_codec
from paceline.errors import UsageError

Reduce = Literal["mean", "sum"]
Isolation = Literal["serial", "hogwild"]


def require(condition: bool, text: str) -> None:
    """Raise a `UsageError` with this text unless the condition holds."""
    if not condition:
        raise UsageError(text)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


class Sync(msgspec.Struct, frozen=True, tag="sync", kw_only=True):
    """Lockstep: one update per round, the mean or sum over all live trainers.

    Args:
        reduce: ``"mean"`` (weighted by records: equals one process on the joined
            batch) or ``"sum"``.
        codec: how gradients and values travel, see `paceline.codec_names`; None: as they
            are.
    """

    reduce: Reduce = "mean"
    codec: str | None = None

    def __post_init__(self) -> None:
        require(
            self.reduce in get_args(Reduce),
            f"sync: reduce is 'mean' or 'sum', got {self.reduce!r}",
        )
        require_codec("sync", self.codec)

    def __str__(self) -> str:
        """As it is written on the command line."""
        reduce = None if self.reduce == "mean" else self.reduce
        return _written("sync", reduce=reduce, codec=self.codec)


class SSP(msgspec.Struct, frozen=True, tag="ssp", kw_only=True):
    """Stale synchronous parallel: nobody is far ahead of the slowest (Ho 2013).

    Each push is applied at once. A trainer that has finished ``c`` steps goes on while the
    slowest that has work has finished ``c - staleness``; what it then reads has all of the
    others' steps up to that one in it, and all of its own.

    Args:
        staleness: steps that a trainer may be ahead of the slowest. With 0 nobody begins a
            step before all have finished the one before; updates are still one by one.
        codec: how gradients and values travel, see `paceline.codec_names`; None: as they
            are.
    """

    staleness: int
    codec: str | None = None

    def __post_init__(self) -> None:
        require(
            is_whole(self.staleness) and self.staleness >= 0,
            f"ssp: staleness is a number of steps >= 0, got {self.staleness!r}",
        )
        require_codec("ssp", self.codec)

    def __str__(self) -> str:
        """As it is written on the command line."""
        codec = "" if self.codec is None else f",codec={self.codec}"
        return f"ssp:{self.staleness}{codec}"


class Async(msgspec.Struct, frozen=True, tag="async", kw_only=True):
    """Free running: every push is applied at once, nobody waits (Downpour, Dean 2012).

    Args:
        push_every: push after every n batches; gradients in between are summed.
        pull_every: fetch parameters so often that a batch lacks at most the trainer's own
            last m - 1. If that is at least twice ``push_every``, nobody waits for a push
            either: the trainer computes on while it is under way.
        isolation: ``"serial"``, one update at a time on each slot; or ``"hogwild"``, as
            many at once as there are pushes (Niu 2011): a number that two of them change
            at the same moment may keep one change only. Each push still counts once.
        merge: how many pushes that wait for one slot may become one update: their
            gradients are summed for SGD, averaged for other optimizers. Each still counts
            for itself. 1: none are merged.
        codec: how gradients and values travel, see `paceline.codec_names`; None: as they
            are.
    """

    push_every: int = 1
    pull_every: int = 1
    isolation: Isolation = "serial"
    merge: int = 1
    codec: str | None = None

    def __post_init__(self) -> None:
        require(
            self.isolation in get_args(Isolation),
            f"async: isolation is 'serial' or 'hogwild', got {self.isolation!r}",
        )
        for name, value in (("push", self.push_every), ("pull", self.pull_every)):
            require(
                is_whole(value) and value >= 1,
                f"async: {name} is a number of batches >= 1, got {value!r}",
            )
        require(
            is_whole(self.merge) and self.merge >= 1,
            f"async: merge is a number of pushes >= 1, got {self.merge!r}",
        )
        require(
            self.merge == 1 or self.isolation == "serial",
            f"async: merge={self.merge} takes pushes that wait for each other, and with "
            f"isolation={self.isolation} none does: choose one of the two",
        )
        require_codec("async", self.codec)

    def __str__(self) -> str:
        """As it is written on the command line."""
        is_each = self.push_every == self.pull_every == 1
        push, pull = (None, None) if is_each else (self.push_every, self.pull_every)
        isolation = None if self.isolation == "serial" else self.isolation
        merge = None if self.merge == 1 else self.merge
        return _written(
            "async",
            push=push,
            pull=pull,
            isolation=isolation,
            merge=merge,
            codec=self.codec,
        )


Pace = Sync | SSP | Async


def _written(pace: str, **options: object) -> str:
    """A pace as the command line takes it; options that are None are left out."""
    said = [f"{name}={value}" for name, value in options.items() if value is not None]
    return f"{pace}:{','.join(said)}" if said else pace


def parse_pace(text: str) -> Pace:
    """Read a pace as written on the command line, e.g. ``ssp:3`` or ``async:push=4``.

    Raises:
        UsageError: unknown pace or option, or a value out of range.
    """
    name, _, rest = text.partition(":")
    require(
        name in _OPTIONS, f"pace {text!r}: {name!r} is not one of {', '.join(_OPTIONS)}"
    )
    given = _read_options(text, name, rest)
    for option in given.keys() - _OPTIONS[name].keys():
        reason = _REFUSED.get((name, option), f"{name} has no option {option}")
        raise UsageError(f"pace {text!r}: {reason}")
    fields = {field: given[o] for o, field in _OPTIONS[name].items() if o in given}
    if name == "sync":
        return Sync(**fields)  # type: ignore[arg-type]  # checked by all of them
    if name == "async":
        return Async(**fields)  # type: ignore[arg-type]
    require("staleness" in fields, f"pace {text!r}: expected a staleness, like ssp:3")
    return SSP(**fields)  # type: ignore[arg-type]


_OPTIONS = {  # {pace: {option: field}}; the first may be written without its name
    "sync": {"reduce": "reduce", "codec": "codec"},
    "ssp": {"staleness": "staleness", "codec": "codec"},
    "async": {
        "push": "push_every",
        "pull": "pull_every",
        "isolation": "isolation",
        "merge": "merge",
        "codec": "codec",
    },
}
_WITHOUT_NAME = {"ssp": "staleness"}
_WORDS = {"reduce", "isolation", "codec"}
_ALONE = "a round is one update, so only async has {}"
_REFUSED = {
    ("sync", "isolation"): _ALONE.format("isolation"),
    ("sync", "merge"): _ALONE.format("merge"),
    ("ssp", "isolation"): "what ssp promises of reads, hogwild breaks: use async",
}


def _read_options(text: str, name: str, rest: str) -> dict[str, str | int]:
    given: dict[str, str | int] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = (each.strip() for each in item.partition("="))
        if not equals and name in _WITHOUT_NAME and not given:
            key, value = _WITHOUT_NAME[name], key
        else:
            require(bool(equals), f"pace {text!r}: expected option=value, got {item!r}")
        require(key not in given, f"pace {text!r}: {key} is said twice")
        given[key] = value if key in _WORDS else _whole(text, value)
    return given


def _whole(text: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"pace {text!r}: expected a whole number, got {value!r}") from None
