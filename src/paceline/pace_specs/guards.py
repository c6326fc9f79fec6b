"""Guards: what keeps updates that are old, wild or early from doing harm, on any preset.

Frozen and checked when they are made, as presets are. On the command line they are written
flat, beside the options of the preset: ``async:scale=1,drop=20``. What they mean,
`paceline.pace.guards` says.

Sources: Zhang and others 2015 (arXiv 1511.05950) for the step by age; Zheng and others 2016
(DC-ASGD, arXiv 1609.08326) for the compensation; Goyal and others 2017 for the warm-up.
"""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from paceline.errors import UsageError
from paceline.pace_specs.checks import (
    is_number,
    is_whole,
    require,
    require_count,
    require_word,
)

Old = Literal["drop", "again"]

IN_ROUNDS = "a round has no age: all of it is computed on the values of the round before"


class Guards(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Guards of a part; each is off unless it is given, and one of them must be.

    The age of a push is how many updates a server has applied since the values that the
    push was computed on.

    Args:
        scale: the step of a push of this age is taken with the learning rate
            ``lr / max(1, age) ** scale``.
        drop: a push that is older than so many updates is not applied.
        old: what becomes of its batches. ``"drop"``: they have no effect, and count;
            ``"again"``: they are trained again, on fresh values.
        compensate: lambda of DC-ASGD: the gradient ``g`` is applied as
            ``g + compensate * g * g * (w_now - w_then)``.
        norm: a push whose norm is more than so many times the usual one is not applied.
        warmup: over so many updates of the part the learning rate rises linearly.
    """

    scale: float | None = None
    drop: int | None = None
    old: Old = "drop"
    compensate: float | None = None
    norm: float | None = None
    warmup: int | None = None

    def __post_init__(self) -> None:
        require(bool(options_of(self)), "guards: none is given; leave them out")
        for name in ("scale", "compensate"):
            value = getattr(self, name)
            require(
                value is None or (is_number(value) and value > 0),
                f"guards: {name} is a number > 0, got {value!r}",
            )
        require(
            self.drop is None or (is_whole(self.drop) and self.drop >= 0),
            f"guards: drop is an age >= 0, in updates, got {self.drop!r}",
        )
        require_word("guards", "old", self.old, "drop", "again")
        require(
            self.drop is not None or self.old == "drop",
            "guards: old='again' without drop: nothing is too old where no age is",
        )
        require(
            self.norm is None or (is_number(self.norm) and self.norm > 1),
            f"guards: norm is a multiple of the usual norm > 1, got {self.norm!r}",
        )
        if self.warmup is not None:
            require_count("guards", "warmup", self.warmup, "updates", 1)


GUARD_OPTIONS = Guards.__struct_fields__


def options_of(guards: Guards | None) -> dict[str, object]:
    """The guards that are on, as the command line takes them: ``{option: value}``."""
    if guards is None:
        return {}
    given = {name: getattr(guards, name) for name in GUARD_OPTIONS}
    is_usual = given["old"] == "drop"
    return {
        name: _short(value)
        for name, value in given.items()
        if value is not None and not (name == "old" and is_usual)
    }


def refuse_guards(pace: str, guards: Guards | None, why_not: Mapping[str, str]) -> None:
    """Refuse guards that mean nothing under a pace: ``{option: why}``.

    Raises:
        UsageError: one of these is on.
    """
    for option in options_of(guards):
        if option in why_not:
            raise UsageError(f"{pace}: {option}: {why_not[option]}")


_SHORT = {  # {field: its option, where that is called otherwise}
    "outer_lr": "lr",
    "outer_momentum": "momentum",
    "push_every": "push",
    "pull_every": "pull",
    "least_s": "least",
}


def option_of(field: str) -> str:
    """How the command line calls the field of a pace."""
    return _SHORT.get(field, field)


def written(pace: msgspec.Struct, also: Collection[str] = ()) -> str:
    """A pace as the command line takes it.

    Fields that are as usual are left out, but for those in ``also``; the codec and the
    guards come last.
    """
    name = str(pace.__struct_config__.tag)
    said: dict[str, object] = {}
    for field in msgspec.structs.fields(pace):
        value = getattr(pace, field.name)
        if field.required:
            name = f"{name}:{value}"
        elif value != field.default or field.name in also:
            said[option_of(field.name)] = "no" if value is False else value
    codec, guards = said.pop("codec", None), said.pop("guards", None)
    said |= {} if codec is None else {"codec": codec}
    said |= options_of(guards) if isinstance(guards, Guards) else {}
    options = ",".join(f"{option}={value}" for option, value in said.items())
    return f"{name}{',' if ':' in name else ':'}{options}" if options else name


def _short(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
