"""Plain, frozen descriptions that users write and roles exchange.

Everything here is checked when it is made and means the same on every machine: paces
(`Sync`, `Async`), row optimizers (`SGD`, `Adagrad`, `RowWiseAdagrad`, `Adam`, `FTRL`),
row initialisers (`Zeros`, `Uniform`, `Normal`) and the `JobConfig` that a launcher hands
to all roles. Nothing here has behaviour: `pace/` interprets paces, `params/` interprets
optimizers.

Of row optimizers, w is an element of a row, float32, and g its gradient: those of equal
ids in a batch are summed first. All are lazy: a step touches the rows that it has
gradients for, and nothing of any other row, neither values nor state.
"""

from typing import Literal, get_args

import msgspec

from paceline.errors import UsageError

Reduce = Literal["mean", "sum"]


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise UsageError(text)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require_not_negative(optimizer: str, **values: float) -> None:
    for name, value in values.items():
        _require(value >= 0, f"{optimizer}: {name} must be >= 0, got {value}")


class Sync(msgspec.Struct, frozen=True, tag="sync", kw_only=True):
    """Lockstep: one update per round, the mean or sum over all live trainers.

    Args:
        reduce: ``"mean"`` (weighted by records: equals one process on the joined
            batch) or ``"sum"``.
    """

    reduce: Reduce = "mean"

    def __post_init__(self) -> None:
        _require(
            self.reduce in get_args(Reduce),
            f"sync: reduce is 'mean' or 'sum', got {self.reduce!r}",
        )

    def __str__(self) -> str:
        """As it is written on the command line."""
        return "sync" if self.reduce == "mean" else f"sync:reduce={self.reduce}"


class Async(msgspec.Struct, frozen=True, tag="async", kw_only=True):
    """Free running: every push is applied at once, nobody waits (Downpour, Dean 2012).

    Args:
        push_every: push after every n batches; gradients in between are summed.
        pull_every: fetch parameters so often that a batch lacks at most the trainer's own
            last m - 1. If that is at least twice ``push_every``, nobody waits for a push
            either: the trainer computes on while it is under way.
    """

    push_every: int = 1
    pull_every: int = 1

    def __post_init__(self) -> None:
        for name, value in (("push", self.push_every), ("pull", self.pull_every)):
            _require(
                _is_whole(value) and value >= 1,
                f"async: {name} is a number of batches >= 1, got {value!r}",
            )

    def __str__(self) -> str:
        """As it is written on the command line."""
        if self.push_every == self.pull_every == 1:
            return "async"
        return f"async:push={self.push_every},pull={self.pull_every}"


Pace = Sync | Async


class SGD(msgspec.Struct, frozen=True, tag="sgd", kw_only=True):
    """Row optimizer: ``m = momentum * m + g; w -= lr * m``, as `torch.optim.SGD`.

    Momentum is lazy: a row that a step does not touch keeps its m and does not move,
    however many steps pass. Where every row is touched in every step, it equals torch.

    Args:
        lr: learning rate, >= 0.
        momentum: in [0, 1). With 0 a row has no state: ``w -= lr * g``.
    """

    lr: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _require_not_negative("SGD", lr=self.lr)
        _require(
            0 <= self.momentum < 1, f"SGD: momentum must be in [0, 1), got {self.momentum}"
        )


class Adagrad(msgspec.Struct, frozen=True, tag="adagrad", kw_only=True):
    """Row optimizer: ``sum += g*g; w -= lr * g / (sqrt(sum) + eps)`` (Duchi 2011).

    Args:
        lr: learning rate, >= 0.
        initial_accumulator: what every element's sum begins as, >= 0.
        eps: keeps the division finite, >= 0.
    """

    lr: float = 0.05
    initial_accumulator: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        _require_not_negative(
            "Adagrad",
            lr=self.lr,
            initial_accumulator=self.initial_accumulator,
            eps=self.eps,
        )


class RowWiseAdagrad(msgspec.Struct, frozen=True, tag="row_wise_adagrad", kw_only=True):
    """Row optimizer: Adagrad with one sum for a whole row, as in FBGEMM and torchrec.

    ``sum += mean(g*g); w -= lr * g / (sqrt(sum) + eps)``, the mean over the elements of
    the row: a state of 4 bytes a row, not of 4 an element.

    Args:
        lr: learning rate, >= 0.
        initial_accumulator: what the row's sum begins as, >= 0.
        eps: keeps the division finite, >= 0.
    """

    lr: float = 0.05
    initial_accumulator: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        _require_not_negative(
            "RowWiseAdagrad",
            lr=self.lr,
            initial_accumulator=self.initial_accumulator,
            eps=self.eps,
        )


def _are_betas(betas: object) -> bool:
    # A list would not equal the tuple that the same spec is on another machine.
    if not isinstance(betas, tuple) or len(betas) != 2:
        return False
    return all(0 <= beta < 1 for beta in betas)


class Adam(msgspec.Struct, frozen=True, tag="adam", kw_only=True):
    """Row optimizer: lazy Adam, ``w -= lr * m_hat / (sqrt(v_hat) + eps)`` (Kingma 2015).

    ``m += (1 - beta1) * (g - m); v += (1 - beta2) * (g*g - v)``, and
    ``m_hat = m / (1 - beta1**t), v_hat = v / (1 - beta2**t)``.

    It is lazy: m, v and the step count t of a row move only in steps that touch the row,
    and t counts those. Where every row is touched in every step, it equals
    `torch.optim.Adam`. `torch.optim.SparseAdam` is lazy too, but counts all steps for all
    rows, so that a rare row is hardly corrected for beginning at zero.

    Args:
        lr: learning rate, >= 0.
        betas: (beta1, beta2), how much of m and of v a step keeps; each in [0, 1).
        eps: keeps the division finite, >= 0.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        _require_not_negative("Adam", lr=self.lr, eps=self.eps)
        _require(
            _are_betas(self.betas),
            f"Adam: betas must be a tuple of two numbers in [0, 1), got {self.betas!r}",
        )


class FTRL(msgspec.Struct, frozen=True, tag="ftrl", kw_only=True):
    """Row optimizer: FTRL-Proximal (McMahan 2013, Algorithm 1), element by element.

    ``sigma = (sqrt(n + g*g) - sqrt(n)) / lr; z += g - sigma * w; n += g*g``, then ``w = 0``
    where ``|z| <= l1``, else ``w = -(z - sign(z) * l1) / ((beta + sqrt(n)) / lr + l2)``.

    The paper begins with w = 0. A row that begins elsewhere has ``z = -w * beta / lr`` at
    first: what the paper's proximal terms, centered at that w, add up to. So without l1
    and l2 it is gradient descent with a rate of ``lr / (beta + sqrt(n))`` per element,
    wherever it begins. Nothing is regularised before the first touch.

    Args:
        lr: the paper's alpha, > 0.
        beta: slows the first steps, >= 0.
        l1: the more, the more elements are exactly zero; >= 0.
        l2: pulls elements to zero, >= 0.
    """

    lr: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        _require(self.lr > 0, f"FTRL: lr must be > 0, got {self.lr}")
        _require_not_negative("FTRL", beta=self.beta, l1=self.l1, l2=self.l2)


RowOptimizer = SGD | Adagrad | RowWiseAdagrad | Adam | FTRL


class Zeros(msgspec.Struct, frozen=True, tag="zeros"):
    """A new row is all zeros."""


class Uniform(msgspec.Struct, frozen=True, tag="uniform"):
    """A new row is uniform in [-bound, bound), a pure function of (seed, table, id)."""

    bound: float = 0.05

    def __post_init__(self) -> None:
        _require(self.bound >= 0, f"Uniform: bound must be >= 0, got {self.bound}")


class Normal(msgspec.Struct, frozen=True, tag="normal"):
    """A new row is normal with this deviation, a pure function of (seed, table, id)."""

    std: float = 0.01

    def __post_init__(self) -> None:
        _require(self.std >= 0, f"Normal: std must be >= 0, got {self.std}")


RowInit = Zeros | Uniform | Normal


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
    if name == "sync":
        pace: Pace = Sync(reduce=options.pop("reduce", "mean"))  # type: ignore[arg-type]  # checked by Sync
    elif name == "async":
        pace = Async(
            push_every=_whole(text, options.pop("push", "1")),
            pull_every=_whole(text, options.pop("pull", "1")),
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
