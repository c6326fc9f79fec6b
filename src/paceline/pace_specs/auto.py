"""The pace that looks after itself, as it is written: `Auto`."""

from typing import Literal, get_args

import msgspec

from paceline.codec_names import require_codec
from paceline.pace_specs.checks import is_number, require, require_word
from paceline.pace_specs.guards import Guards, refuse_guards, written

Looseness = Literal["sync", "ssp:1", "ssp:3", "ssp:8", "async"]
Reduction = Literal["mean", "sum"]  # as `paceline.pace_specs.presets.Sync` has it
_NO_AGE = dict.fromkeys(
    ("scale", "drop", "old", "compensate"),
    "it begins in rounds, where nothing has an age: give it to ssp or async",
)


class Auto(msgspec.Struct, frozen=True, tag="auto", kw_only=True):
    """Starts as `Sync`; loosens while trainers wait, tightens when the loss alarms.

    The steps are ``sync``, ``ssp:1``, ``ssp:3``, ``ssp:8``, ``async``; each change is one
    step, and is told with its reason.

    Args:
        wait: the share of trainers' time, from 0 to 1, that they may wait for each other;
            above it the pace loosens.
        least_s: seconds between two changes, and over which waiting is measured. After an
            alarm nothing loosens for twice as long, then four times, ...
        loosest: the step that it does not go beyond.
        watch: the name of the number, told by `Session.log`, that must not rise.
        alarm: by how many deviations (the median's, of the numbers before) it rises to be
            an alarm; a number that is not finite is one, too.
        reduce: as in `Sync`.
        codec: how gradients and values travel (`paceline.codec_names`); None: as is.
        guards: what keeps wild or early updates from doing harm, see `Guards`.
    """

    wait: float = 0.2
    least_s: float = 30.0
    loosest: Looseness = "async"
    watch: str = "loss"
    alarm: float = 6.0
    reduce: Reduction = "mean"
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require(
            is_number(self.wait) and 0 < self.wait < 1,
            f"auto: wait is a share between 0 and 1, got {self.wait!r}",
        )
        require(
            is_number(self.least_s) and self.least_s > 0,
            f"auto: least is a number of seconds > 0, got {self.least_s!r}",
        )
        require(
            self.loosest in get_args(Looseness),
            f"auto: loosest is one of {', '.join(get_args(Looseness))}, "
            f"got {self.loosest!r}",
        )
        require(
            self.watch.isidentifier(),
            f"auto: watch is the name of a logged number, got {self.watch!r}",
        )
        require(
            is_number(self.alarm) and self.alarm > 0,
            f"auto: alarm is a number of deviations > 0, got {self.alarm!r}",
        )
        require_word("auto", "reduce", self.reduce, "mean", "sum")
        require_codec("auto", self.codec)
        refuse_guards("auto", self.guards, _NO_AGE)

    def __str__(self) -> str:
        return written(self)
