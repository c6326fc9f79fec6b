"""What a server decides about a push, or a round of them.

Pure.
"""

from typing import Literal

import msgspec

from paceline.ids import Window
from paceline.messages.shared import Refusal

Verdict = Literal[
    "apply",
    "prepare",
    "prepared",
    "hold",
    "held",
    "duplicate",
    "late",
    "void",
    "again",
    "repeat",
    "refuse",
]


class LastPush(msgspec.Struct):
    """A trainer's last push; ``said`` to whoever repeats it, once it is settled.

    Whoever lets the numbers of a push follow sets ``is_settled`` when they have.
    """

    number: int
    is_settled: bool
    said: Verdict = "duplicate"


class PushDecision(msgspec.Struct, frozen=True):
    """What to do with a push.

    ``apply``, ``prepare`` and ``hold``: let the numbers follow on ``slots``, then
    acknowledge; ``prepared`` and ``held`` (it was before), ``duplicate``, ``late``,
    ``void`` (its batches count without effect), ``again`` (they do not): acknowledge;
    ``repeat``: the same push is being applied, ask again; ``refuse``: with ``refusal``.
    ``rate`` is what the learning rate of one to ``apply`` is multiplied by, ``version``
    what it makes of its part, ``last`` what is settled when its numbers have followed.
    """

    verdict: Verdict
    slots: tuple[int, ...] = ()
    refusal: Refusal | None = None
    rate: float = 1.0
    version: int = 0
    last: LastPush | None = None


class Prepared(msgspec.Struct, frozen=True):
    """A buffered push; ``slots`` will take it."""

    number: int
    round: int
    window: Window
    slots: tuple[int, ...]
    is_void: bool
    records: int


class Held(msgspec.Struct, frozen=True):
    """A push that waits for its step to be committed; ``slots`` will take it."""

    number: int
    window: Window
    slots: tuple[int, ...]
    token: int | None  # of the lock that it is written under


class RoundDecision(msgspec.Struct, frozen=True):
    """What a round does: all by incarnation.

    ``incarnations``: whose prepared pushes make one update; empty: nothing to do.
    ``dropped``: whose came too late. ``may_differ``: they need not have taken as many
    steps, so that schedulers, too, stand where they may. ``rate``: see `PushDecision`.
    """

    incarnations: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    may_differ: bool = False
    rate: float = 1.0
