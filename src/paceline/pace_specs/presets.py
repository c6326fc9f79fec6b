"""Paces as they are written: how tightly trainers march together.

Frozen, checked when they are made, the same on every machine; `str` writes one as the
command line takes it and `paceline.pace_specs.parsing` reads it back. What they mean,
`paceline.pace` says.
"""

from typing import Literal

import msgspec

from paceline.codec_names import require_codec, top_share
from paceline.pace_specs.auto import Auto
from paceline.pace_specs.checks import (
    is_number,
    is_whole,
    require,
    require_count,
    require_outer,
    require_word,
)
from paceline.pace_specs.guards import IN_ROUNDS, Guards, refuse_guards, written

Reduce = Literal["mean", "sum"]
Isolation = Literal["serial", "hogwild"]
Late = Literal["drop", "again"]
Grace = float | Literal["auto"]
_OUTER_LR, _OUTER_MOMENTUM, _MIX = 0.7, 0.9, 0.5  # of the papers' main runs
_NO_AGE = dict.fromkeys(("scale", "drop", "old", "compensate"), IN_ROUNDS)
_NO_STEP = (
    "a round takes the mean of where its trainers have come to; let their own optimizers "
    "begin slowly, by a scheduler"
)
_NO_GRADIENT = {
    "old": "many steps have led to what would be trained again: use old=drop",
    "compensate": "a delta is no gradient",
}


class Sync(msgspec.Struct, frozen=True, tag="sync", kw_only=True):
    """Lockstep: one update per round, the mean or sum over all live trainers.

    Args:
        reduce: ``"mean"`` (weighted by records: equals one process on the joined
            batch) or ``"sum"``.
        backup: trainers that a round does without: it closes when all but so many have
            pushed (Chen 2016). Whoever comes later is late.
        late: what becomes of the batches of a late push. ``"drop"``: they have no effect,
            and count; ``"again"``: they go back to the queue, for whoever is next.
        codec: how gradients and values travel (`paceline.codec_names`); None: as is.
        guards: what keeps wild or early updates from doing harm, see `Guards`.
    """

    reduce: Reduce = "mean"
    backup: int = 0
    late: Late = "drop"
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_word("sync", "reduce", self.reduce, "mean", "sum")
        require_count("sync", "backup", self.backup, "trainers", 0)
        require_word("sync", "late", self.late, "drop", "again")
        require(
            self.backup > 0 or self.late == "drop",
            "sync: late='again' without backup: nobody is late where all are waited for",
        )
        require_codec("sync", self.codec)
        refuse_guards("sync", self.guards, _NO_AGE)

    def __str__(self) -> str:
        return written(self)


class SSP(msgspec.Struct, frozen=True, tag="ssp"):
    """Stale synchronous parallel: nobody is far ahead of the slowest (Ho 2013).

    Each push is applied at once. A trainer that has finished ``c`` steps goes on while the
    slowest that has work has finished ``c - staleness``; what it then reads has all of the
    others' steps up to that one in it, and all of its own.

    Args:
        staleness: steps that a trainer may be ahead of the slowest. With 0 nobody begins a
            step before all have finished the one before; updates are still one by one.
        codec: how gradients and values travel (`paceline.codec_names`); None: as is.
        guards: what keeps old, wild or early updates from doing harm, see `Guards`.
    """

    staleness: int
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_count("ssp", "staleness", self.staleness, "steps", 0)
        require_codec("ssp", self.codec)
        refuse_guards("ssp", self.guards, _with_codec(self.codec))

    def __str__(self) -> str:
        return written(self)


class Async(msgspec.Struct, frozen=True, tag="async", kw_only=True):
    """Free running: every push is applied at once, nobody waits (Downpour, Dean 2012).

    Args:
        push_every: push after every n batches; gradients in between are summed.
        pull_every: fetch parameters so often that a batch lacks at most the trainer's own
            last m - 1. If that is at least twice ``push_every``, nobody waits for a push
            either: the trainer computes on while it is under way.
        isolation: ``"serial"``, one update at a time on each slot; or ``"hogwild"``, for
            rows of embeddings, as many at once as there are pushes (Niu 2011): a number
            that two of them change at the same moment may keep one change only. Each push
            still counts once.
        merge: how many pushes that wait for one slot may become one update: their
            gradients are summed for SGD, averaged for other optimizers. Each still counts
            for itself. 1: none are merged.
        codec: how gradients and values travel (`paceline.codec_names`); None: as is.
        guards: what keeps old, wild or early updates from doing harm, see `Guards`.
    """

    push_every: int = 1
    pull_every: int = 1
    isolation: Isolation = "serial"
    merge: int = 1
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_word("async", "isolation", self.isolation, "serial", "hogwild")
        require_count("async", "push", self.push_every, "batches", 1)
        require_count("async", "pull", self.pull_every, "batches", 1)
        require_count("async", "merge", self.merge, "pushes", 1)
        require(
            self.merge == 1 or self.isolation == "serial",
            f"async: merge={self.merge} takes pushes that wait for each other, and with "
            f"isolation={self.isolation} none does: choose one of the two",
        )
        require_codec("async", self.codec)
        refuse_guards("async", self.guards, self._why_not())

    def _why_not(self) -> dict[str, str]:
        """Guards that mean nothing beside the other options: ``{option: why}``."""
        why_not = _with_codec(self.codec)
        if self.isolation == "hogwild":
            alone = "with isolation=hogwild pushes are applied beside each other, and {}"
            why_not["drop"] = alone.format("no age is exact: use scale, or leave it out")
            why_not["compensate"] = alone.format("values change while it looks at them")
        if self.merge > 1:
            why_not["compensate"] = (
                f"it is a push's own, and merge={self.merge} makes one update of several"
            )
        if self.pull_every != self.push_every:
            why_not["compensate"] = (
                f"gradients of one push are computed on values of different moments with "
                f"push={self.push_every},pull={self.pull_every}: use pull={self.push_every}"
            )
        if self.pull_every >= 2 * self.push_every:
            why_not["old"] = (
                f"with push={self.push_every},pull={self.pull_every} the next batches are "
                f"computed before it is known; use pull={self.push_every}, or old=drop"
            )
        return why_not

    def __str__(self) -> str:
        is_each = self.push_every == self.pull_every == 1
        return written(self, () if is_each else ("push_every", "pull_every"))


class LocalSGD(msgspec.Struct, frozen=True, tag="local"):
    """Local steps, then one update of all: the mean of how far each has come.

    Every trainer takes ``every`` batches with its own optimizer, which keeps its state
    there, and pushes how far that has led it. A round moves the shared parameters by the
    mean over all trainers, weighted by records (Stich 2018; with several local epochs,
    McMahan 2016).

    Args:
        every: batches between two rounds.
        codec: how deltas and values travel (`paceline.codec_names`); None: as is.
        guards: what keeps wild deltas from doing harm, see `Guards`.
    """

    every: int
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_count("local", "every", self.every, "batches", 1)
        require_codec("local", self.codec)
        refuse_guards("local", self.guards, {**_NO_AGE, "warmup": _NO_STEP})

    def __str__(self) -> str:
        return written(self)


class DiLoCo(msgspec.Struct, frozen=True, tag="diloco"):
    """Local steps, then an outer step with Nesterov momentum (Douillard 2023).

    As `LocalSGD`, but the servers take the mean delta for a gradient, and step on it with
    SGD of their own.

    Args:
        every: batches between two rounds.
        outer_lr: learning rate of the outer step.
        outer_momentum: its Nesterov momentum; 0: none.
        fragments: parts that the model is cut into, by whole parameters; each has a round
            every ``every`` batches, and their rounds are spread evenly (Douillard 2025).
        overlap: batches that a trainer goes on for before it takes in a round's values.
        mix: the share of its own values in those that it then goes on with.
        codec: how deltas and values travel (`paceline.codec_names`); None: as is.
        quorum: deltas that let a round close without the others (2604.21428): theirs go
            into a later one. None: a round waits for all.
        grace: seconds that a round with a quorum waits for more; ``"auto"``: as long as
            others mostly come behind it, and no more than a tenth of a round.
        guards: what keeps wild or early deltas from doing harm, see `Guards`.
    """

    every: int
    outer_lr: float = _OUTER_LR
    outer_momentum: float = _OUTER_MOMENTUM
    fragments: int = 1
    overlap: int = 0
    mix: float = _MIX
    codec: str | None = None
    quorum: int | None = None
    grace: Grace = "auto"
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_count("diloco", "every", self.every, "batches", 1)
        require_outer("diloco", self.outer_lr, self.outer_momentum)
        self._require_turns()
        require_codec("diloco", self.codec)
        refuse_guards("diloco", self.guards, _NO_AGE)
        self._require_quorum()

    def _require_turns(self) -> None:
        require(
            is_whole(self.fragments) and 1 <= self.fragments <= self.every,
            f"diloco: fragments is a number from 1 to every={self.every}, a batch or more "
            f"for each one's turn, got {self.fragments!r}",
        )
        turn = self.every // self.fragments
        require(
            is_whole(self.overlap) and 0 <= self.overlap < turn,
            f"diloco: overlap is a number of batches from 0 to below the {turn} of one "
            f"turn (every={self.every} over fragments={self.fragments}), "
            f"got {self.overlap!r}",
        )
        require(
            is_number(self.mix) and 0 <= self.mix < 1,
            f"diloco: mix is a number from 0 to below 1, got {self.mix!r}",
        )
        require(
            self.overlap != 0 or self.mix == _MIX,
            f"diloco: mix={self.mix} is of values that come while a trainer steps on, and "
            f"with overlap=0 it waits for them: give overlap, or leave mix out",
        )

    def _require_quorum(self) -> None:
        quorum, grace = self.quorum, self.grace
        if quorum is not None:
            require_count("diloco", "quorum", quorum, "trainers", 1)
        require(
            grace == "auto" or (is_number(grace) and grace >= 0),
            f"diloco: grace is 'auto' or seconds >= 0, got {grace!r}",
        )
        require(
            grace == "auto" or quorum is not None,
            f"diloco: grace={grace} without quorum: a round waits for all, however long",
        )
        require(
            quorum is None or (self.fragments == 1 and self.overlap == 0),
            f"diloco: quorum={quorum} with fragments or overlap: who is not in a round of "
            f"one fragment falls out of turn with the others; leave one of them out",
        )

    def __str__(self) -> str:
        return written(self)


class AsyncDiLoCo(msgspec.Struct, frozen=True, tag="async-diloco"):
    """Local steps, then a delta that the servers apply at once (Liu 2024, 2401.09135).

    Nobody waits. Every delta moves the shared values by itself; momentum, which old deltas
    would lead astray, is refreshed and applied with every ``delay``-th one only (delayed
    Nesterov).

    Args:
        every: batches of the fastest trainer between two deltas.
        outer_lr: learning rate of the outer step.
        outer_momentum: its Nesterov momentum; 0: none.
        delay: deltas that make one step of momentum, and share one step's length: about as
            many as there are trainers.
        adapt: slower trainers take fewer batches, in proportion to their measured speed,
            so that deltas are equally old (dynamic local updates); else ``every``, too.
        codec: how deltas and values travel (`paceline.codec_names`); None: as is.
        guards: what keeps old, wild or early deltas from doing harm, see `Guards`.
    """

    every: int
    outer_lr: float = _OUTER_LR
    outer_momentum: float = _OUTER_MOMENTUM
    delay: int = 4
    adapt: bool = True
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_count("async-diloco", "every", self.every, "batches", 1)
        require_outer("async-diloco", self.outer_lr, self.outer_momentum)
        require_count("async-diloco", "delay", self.delay, "deltas", 1)
        require(
            isinstance(self.adapt, bool),
            f"async-diloco: adapt is True or False, got {self.adapt!r}",
        )
        require_codec("async-diloco", self.codec)
        refuse_guards("async-diloco", self.guards, _NO_GRADIENT)

    def __str__(self) -> str:
        return written(self)


class AllReduce(msgspec.Struct, frozen=True, tag="allreduce"):
    """As `Sync`, but every trainer keeps model and optimizer, and gradients travel between.

    Each round takes the mean over the records of all trainers with work, to the same bits
    on all of them; each trainer then steps with its own optimizer. Parameters and the
    optimizer's state are tracked: who joins has them, checkpoints hold them.
    """

    def __str__(self) -> str:
        return "allreduce"


def _with_codec(codec: str | None) -> dict[str, str]:
    if codec is None:
        return {}
    why_not = {
        "compensate": f"it needs values as they are, and codec={codec} rounds: drop one"
    }
    if codec == "int4" or top_share(codec) is not None:
        why_not["old"] = (
            f"what codec={codec} leaves out of a push goes with the next one, and would "
            f"be trained again as well: use old=drop, or another codec"
        )
    return why_not


Pace = Sync | SSP | Async | LocalSGD | DiLoCo | AsyncDiLoCo | Auto
