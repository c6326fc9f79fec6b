"""How rows begin and how they learn: specs that users write and roles exchange.

All are plain, frozen, and checked when they are made; `paceline.params.rows` knows what
they mean.

Of row optimizers, w is an element of a row, float32, and g its gradient: those of equal
ids in a batch are summed first. All are lazy: a step touches the rows that it has
gradients for, and nothing of any other row, neither values nor state. So is decay: a row
decays in the steps that touch it. ``weight_decay`` adds ``weight_decay * w`` to g, as it
does in torch; that of `AdamW` takes ``lr * weight_decay * w`` off w before the step.
"""

import math
from typing import Literal

import msgspec

from paceline.errors import UsageError


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise UsageError(text)


def _require_not_negative(optimizer: str, **values: float) -> None:
    for name, value in values.items():
        _require(value >= 0, f"{optimizer}: {name} must be >= 0, got {value}")


class SGD(msgspec.Struct, frozen=True, tag="sgd", kw_only=True):
    """Row optimizer: ``m = momentum * m + g; w -= lr * m``, as `torch.optim.SGD`.

    Momentum is lazy: a row that a step does not touch keeps its m and does not move,
    however many steps pass. Where every row is touched in every step, it equals torch.

    Args:
        lr: learning rate, >= 0.
        momentum: in [0, 1). With 0 a row has no state: ``w -= lr * g``.
        nesterov: ``w -= lr * (g + momentum * m)``; needs momentum.
        weight_decay: >= 0.
    """

    lr: float
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _require_not_negative("SGD", lr=self.lr, weight_decay=self.weight_decay)
        _require(
            0 <= self.momentum < 1, f"SGD: momentum must be in [0, 1), got {self.momentum}"
        )
        _require(
            self.momentum > 0 or not self.nesterov,
            "SGD: nesterov needs a momentum, got 0",
        )


class Adagrad(msgspec.Struct, frozen=True, tag="adagrad", kw_only=True):
    """Row optimizer: ``sum += g*g; w -= lr * g / (sqrt(sum) + eps)`` (Duchi 2011).

    Args:
        lr: learning rate, >= 0.
        initial_accumulator: what every element's sum begins as, >= 0.
        eps: keeps the division finite, >= 0.
        weight_decay: >= 0.
    """

    lr: float = 0.05
    initial_accumulator: float = 0.0
    eps: float = 1e-10
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _require_not_negative(
            "Adagrad",
            lr=self.lr,
            initial_accumulator=self.initial_accumulator,
            eps=self.eps,
            weight_decay=self.weight_decay,
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


def _require_adam(optimizer: str, betas: object, steps: object) -> None:
    _require(
        _are_betas(betas),
        f"{optimizer}: betas must be a tuple of two numbers in [0, 1), got {betas!r}",
    )
    _require(
        steps in {"table", "row"},
        f"{optimizer}: steps is 'table' or 'row', got {steps!r}",
    )


class Adam(msgspec.Struct, frozen=True, tag="adam_with_steps", kw_only=True):
    """Row optimizer: lazy Adam, ``w -= lr * m_hat / (sqrt(v_hat) + eps)`` (Kingma 2015).

    ``m += (1 - beta1) * (g - m); v += (1 - beta2) * (g*g - v)``, and
    ``m_hat = m / (1 - beta1**t), v_hat = v / (1 - beta2**t)``.

    It is lazy: m and v of a row move only in steps that touch the row. As in
    `torch.optim.SparseAdam`, t counts the steps of the whole table, all in which it has a
    gradient of any row; one trainer goes as SparseAdam does, to the bit, eps included: it
    is added to ``sqrt(v)``. A rare row is then hardly corrected for beginning at zero.
    With ``steps="row"`` t counts the steps that touch the row.

    Args:
        lr: learning rate, >= 0.
        betas: (beta1, beta2), how much of m and of v a step keeps; each in [0, 1).
        eps: keeps the division finite, >= 0.
        weight_decay: >= 0.
        steps: what t counts, those of the ``"table"`` or of the ``"row"``.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    steps: Literal["table", "row"] = "table"

    def __post_init__(self) -> None:
        _require_not_negative(
            "Adam", lr=self.lr, eps=self.eps, weight_decay=self.weight_decay
        )
        _require_adam("Adam", self.betas, self.steps)


class AdamW(msgspec.Struct, frozen=True, tag="adamw", kw_only=True):
    """Row optimizer: lazy Adam with decay apart from its moments (Loshchilov 2019).

    ``w -= lr * weight_decay * w``, then a step of `Adam`. Where every row is touched in
    every step, it equals `torch.optim.AdamW`.

    Args:
        lr: learning rate, >= 0.
        betas: as `Adam`.
        eps: keeps the division finite, >= 0; added to ``sqrt(v_hat)``, as torch does.
        weight_decay: >= 0.
        steps: as `Adam`.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2
    steps: Literal["table", "row"] = "table"

    def __post_init__(self) -> None:
        _require_not_negative(
            "AdamW", lr=self.lr, eps=self.eps, weight_decay=self.weight_decay
        )
        _require_adam("AdamW", self.betas, self.steps)


class FirstAdam(msgspec.Struct, frozen=True, tag="adam", kw_only=True):
    """`Adam` with ``steps="row"``, in journals and cuts from before there was a choice.

    Nobody makes one any more.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def today(self) -> Adam:
        """The same in the words of today."""
        return Adam(lr=self.lr, betas=self.betas, eps=self.eps, steps="row")


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


RowOptimizer = SGD | Adagrad | RowWiseAdagrad | Adam | AdamW | FirstAdam | FTRL


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


class Constant(msgspec.Struct, frozen=True, tag="constant"):
    """A new row is this number everywhere."""

    value: int | float

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.value),
            f"Constant: value must be finite, got {self.value}; tables that take a maximum "
            f"or a minimum begin at the other end by themselves",
        )


class Lowest(msgspec.Struct, frozen=True, tag="lowest"):
    """A new row is what every number of its dtype is at least: of floats, -inf."""


class Highest(msgspec.Struct, frozen=True, tag="highest"):
    """A new row is what every number of its dtype is at most: of floats, inf."""


RowInit = Zeros | Uniform | Normal | Constant | Lowest | Highest
