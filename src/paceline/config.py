"""Plain, frozen descriptions that users write and roles exchange.

Everything here is checked when it is made and means the same on every machine: paces
(`Sync`, `Async`), what rows are (`paceline.row_specs`) and the `JobConfig` that a launcher
hands to all roles. Nothing here has behaviour: `pace/` interprets paces, `params/`
interprets optimizers.
"""

from typing import Literal, get_args

import msgspec

from paceline.codec_names import require_codec
from paceline.errors import UsageError
from paceline.row_specs import FTRL as FTRL
from paceline.row_specs import SGD as SGD
from paceline.row_specs import Adagrad as Adagrad
from paceline.row_specs import Adam as Adam
from paceline.row_specs import Normal as Normal
from paceline.row_specs import RowInit as RowInit
from paceline.row_specs import RowOptimizer as RowOptimizer
from paceline.row_specs import RowWiseAdagrad as RowWiseAdagrad
from paceline.row_specs import Uniform as Uniform
from paceline.row_specs import Zeros as Zeros

Reduce = Literal["mean", "sum"]
Isolation = Literal["serial", "hogwild"]


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise UsageError(text)


def _is_whole(value: object) -> bool:
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
        _require(
            self.reduce in get_args(Reduce),
            f"sync: reduce is 'mean' or 'sum', got {self.reduce!r}",
        )
        require_codec("sync", self.codec)

    def __str__(self) -> str:
        """As it is written on the command line."""
        reduce = None if self.reduce == "mean" else self.reduce
        return _written("sync", reduce=reduce, codec=self.codec)


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
        _require(
            self.isolation in get_args(Isolation),
            f"async: isolation is 'serial' or 'hogwild', got {self.isolation!r}",
        )
        for name, value in (("push", self.push_every), ("pull", self.pull_every)):
            _require(
                _is_whole(value) and value >= 1,
                f"async: {name} is a number of batches >= 1, got {value!r}",
            )
        _require(
            _is_whole(self.merge) and self.merge >= 1,
            f"async: merge is a number of pushes >= 1, got {self.merge!r}",
        )
        _require(
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


Pace = Sync | Async


def _written(pace: str, **options: object) -> str:
    """A pace as the command line takes it; options that are None are left out."""
    said = [f"{name}={value}" for name, value in options.items() if value is not None]
    return f"{pace}:{','.join(said)}" if said else pace


_WHOLE = (
    "trainers",
    "most_trainers",
    "ranks_per_trainer",
    "servers",
    "seed",
    "keep_cuts",
    "max_task_failures",
)


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a launcher decides for a whole job; written to ``job.json`` in the job folder.

    Args:
        run: id of the run; a connection of another run is refused.
        trainers: how many trainers the first lease waits for: the fewest of the job.
        most_trainers: how many there may be at most; 0: as many as ``trainers``, until
            somebody scales the job.
        ranks_per_trainer: processes of one trainer, which act as one.
        servers: number of parameter servers.
        pace: pace of every part that `Session.share` gives none.
        seed: seed of row initialisation.
        timeout_s: silence after which a role counts as dead.
        cut_every_s: seconds between two periodic cuts; 0 switches them off.
        cut_every_steps: steps between two periodic cuts; 0 switches them off.
        keep_cuts: whole cuts that are kept.
        checkpoints: where cuts lie, an absolute path or an fsspec URL; empty: in the job
            folder.
        max_task_failures: failures or time-outs after which a task is given up for the
            epoch.
    """

    run: str
    trainers: int = 1
    most_trainers: int = 0
    ranks_per_trainer: int = 1
    servers: int = 1
    pace: Pace = Sync()
    seed: int = 0
    timeout_s: float = 10.0
    cut_every_s: float = 60.0
    cut_every_steps: int = 0
    keep_cuts: int = 2
    checkpoints: str = ""
    max_task_failures: int = 3

    def __post_init__(self) -> None:
        for name in _WHOLE:
            value = getattr(self, name)
            _require(_is_whole(value), f"{name} must be a whole number, got {value!r}")
        _require(self.trainers >= 1, f"trainers must be >= 1, got {self.trainers}")
        _require(
            self.most_trainers == 0 or self.most_trainers >= self.trainers,
            f"trainers: expected the fewest, then the most, got "
            f"{self.trainers}:{self.most_trainers}",
        )
        _require(
            self.ranks_per_trainer >= 1,
            f"ranks-per-trainer must be >= 1, got {self.ranks_per_trainer}",
        )
        _require(self.servers >= 1, f"servers must be >= 1, got {self.servers}")
        _require(abs(self.seed) < 2**63, f"seed must be within 64 bits, got {self.seed}")
        _require(self.timeout_s > 0, f"timeout must be > 0 s, got {self.timeout_s}")
        for unit, value in (("s", self.cut_every_s), ("steps", self.cut_every_steps)):
            text = f"between checkpoints must be >= 0 {unit}, got {value}"
            _require(value >= 0, text)
        _require(self.keep_cuts >= 1, f"keep_cuts must be >= 1, got {self.keep_cuts}")
        _require(
            self.max_task_failures >= 1,
            f"max_task_failures must be >= 1, got {self.max_task_failures}",
        )

    @property
    def max_trainers(self) -> int:
        """How many trainers there are at the beginning: as many as there may be."""
        return self.most_trainers or self.trainers


def parse_trainers(text: str) -> tuple[int, int]:
    """Read how many trainers, as written on the command line: ``4``, or ``2:6``.

    Returns:
        (the fewest, the most); the most is 0 where one number was given.

    Raises:
        UsageError: it is neither.
    """
    least, colon, most = text.partition(":")
    if not least.isdecimal() or (colon and not most.isdecimal()):
        raise UsageError(f"trainers: expected a number, or two like 2:6, got {text!r}")
    _require(not colon or int(most) >= 1, f"trainers: expected at least 1, got {text!r}")
    return int(least), int(most) if colon else 0


def parse_pace(text: str) -> Pace:
    """Read a pace as written on the command line, e.g. ``async:push=4,pull=8``.

    Raises:
        UsageError: unknown pace or option, or a value out of range.
    """
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        _require(bool(equals), f"pace {text!r}: expected option=value, got {item!r}")
        options[key.strip()] = value.strip()
    codec = options.pop("codec", None)
    if name == "sync":
        for option in ("isolation", "merge"):
            _require(
                option not in options,
                f"pace {text!r}: a round is one update, so only async has {option}",
            )
        pace: Pace = Sync(reduce=options.pop("reduce", "mean"), codec=codec)  # type: ignore[arg-type]  # checked by Sync
    elif name == "async":
        pace = Async(
            push_every=_whole(text, options.pop("push", "1")),
            pull_every=_whole(text, options.pop("pull", "1")),
            isolation=options.pop("isolation", "serial"),  # type: ignore[arg-type]  # checked by Async
            merge=_whole(text, options.pop("merge", "1")),
            codec=codec,
        )
    else:
        raise UsageError(f"pace {text!r}: {name!r} is not one of sync, async")
    _require(
        not options, f"pace {text!r}: {name} has no option {', '.join(sorted(options))}"
    )
    return pace


def _whole(text: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"pace {text!r}: expected a whole number, got {value!r}") from None
