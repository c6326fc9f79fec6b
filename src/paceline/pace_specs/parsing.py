"""Paces as the command line takes them, read: the other way round from their `str`."""

from paceline.errors import UsageError
from paceline.pace_specs.auto import Auto
from paceline.pace_specs.checks import require
from paceline.pace_specs.guards import GUARD_OPTIONS, Guards, option_of
from paceline.pace_specs.presets import (
    SSP,
    AllReduce,
    Async,
    AsyncDiLoCo,
    DiLoCo,
    LocalSGD,
    Pace,
    Sync,
)


def parse_pace(text: str) -> Pace:
    """Read a pace as written on the command line, e.g. ``ssp:3`` or ``async:push=4``.

    Raises:
        UsageError: unknown pace or option, or a value out of range.
    """
    name, _, rest = text.partition(":")
    require(name != str(AllReduce()), _IN_THE_SCRIPT)
    require(name in _KINDS, f"pace {text!r}: {name!r} is not one of {', '.join(_KINDS)}")
    kind, given = _KINDS[name], _read_options(text, name, rest)
    guards = {option: given.pop(option) for option in GUARD_OPTIONS if option in given}
    fields: dict[str, object] = {
        field: given.pop(option_of(field))
        for field in kind.__struct_fields__
        if field != "guards" and option_of(field) in given
    }
    for option in given:
        has = f"{name} has no option {option}; it has {', '.join(_options_of(kind))}"
        reason = _REFUSED.get((name, option), has)
        raise UsageError(f"pace {text!r}: {reason}")
    if guards:
        fields["guards"] = Guards(**guards)  # type: ignore[arg-type]  # checked by it
    if name in _WITHOUT_NAME:
        [first, example] = _WITHOUT_NAME[name]
        require(first in fields, f"pace {text!r}: expected a number, like {example}")
    if "adapt" in fields:
        fields["adapt"] = fields["adapt"] == "yes"
    return kind(**fields)  # type: ignore[arg-type]  # checked by all of them


_IN_THE_SCRIPT = (
    "pace 'allreduce': expected the pace of a job, of a table or of a forecast, and this "
    "is one of a model without servers, which its script says: leave it out here (--pace), "
    "and write session.share(model, optimizer, pace='allreduce')"
)
_KINDS: dict[str, type[Pace]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Sync, SSP, LocalSGD, DiLoCo, Auto, AsyncDiLoCo, Async)
}
_WITHOUT_NAME = {  # {pace: (option and field, example)}
    "ssp": ("staleness", "ssp:3"),
    "local": ("every", "local:20"),
    "diloco": ("every", "diloco:50"),
    "async-diloco": ("every", "async-diloco:50"),
}
_FRACTIONS = {
    *("lr", "momentum", "mix", "grace", "wait", "least", "alarm"),
    *("scale", "compensate", "norm"),
}
_WORDS = {"reduce", "late", "isolation", "codec", "loosest", "watch", "old", "adapt"}
_ALONE = "a round is one update, so only async has {}"
_REFUSED = {
    ("sync", "isolation"): _ALONE.format("isolation"),
    ("sync", "merge"): _ALONE.format("merge"),
    ("local", "backup"): "who is late for a round of deltas trains them again: use sync",
    ("diloco", "backup"): "who is late for a round of deltas trains them again: use quorum",
    ("async-diloco", "quorum"): "no delta waits for another: use diloco",
    ("local", "quorum"): "use diloco: diloco:20,lr=1,momentum=0 is local:20, and has one",
    ("ssp", "isolation"): "what ssp promises of reads, hogwild breaks: use async",
}


def _options_of(kind: type[Pace]) -> list[str]:
    """All that may be said of a pace, its own first."""
    own = [option_of(field) for field in kind.__struct_fields__ if field != "guards"]
    return [*own, *(GUARD_OPTIONS if "guards" in kind.__struct_fields__ else ())]


def _read_options(text: str, name: str, rest: str) -> dict[str, str | int | float]:
    given: dict[str, str | int | float] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = (each.strip() for each in item.partition("="))
        if not equals and name in _WITHOUT_NAME and not given:
            key, value = _WITHOUT_NAME[name][0], key
        else:
            require(bool(equals), f"pace {text!r}: expected option=value, got {item!r}")
        require(key not in given, f"pace {text!r}: {key} is said twice")
        is_answer = value in {"yes", "no"}
        require(key != "adapt" or is_answer, f"pace {text!r}: adapt is yes or no")
        is_word = key in _WORDS or (key, value) == ("grace", "auto")
        given[key] = value if is_word else _numeral(text, key, value)
    return given


def _numeral(text: str, option: str, value: str) -> int | float:
    kind = "number" if option in _FRACTIONS else "whole number"
    try:
        return float(value) if option in _FRACTIONS else int(value)
    except ValueError:
        raise UsageError(f"pace {text!r}: expected a {kind}, got {value!r}") from None


def parse_any(text: str) -> Pace | AllReduce:
    """As `parse_pace`, of a model that needs no servers, too.

    Raises:
        UsageError: the text is no pace.
    """
    return AllReduce() if text == str(AllReduce()) else parse_pace(text)
