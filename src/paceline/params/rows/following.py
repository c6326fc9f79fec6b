"""Rows that follow the optimizer of a `torch.optim`: its lazy twin.

::

    SGD                lr, momentum, nesterov, weight_decay
    Adagrad            lr, initial_accumulator_value, eps, weight_decay
    Adam               lr, betas, eps, weight_decay     steps counted by table
    SparseAdam         lr, betas, eps                   the same
    AdamW              lr, betas, eps, weight_decay     the same, decay apart

A twin does to a row that has a gradient what torch's does, and nothing to any other, decay
included. It is what the hyper-parameters of every push say: schedules count.

Pure.
"""

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from paceline.config import SGD, Adagrad, Adam, AdamW, RowOptimizer
from paceline.errors import UsageError
from paceline.messages.shared import Hyper, HyperValue
from paceline.params.rows.optimizers import state_widths

TWINS: Final = ("SGD", "Adagrad", "Adam", "AdamW", "SparseAdam")

# What has no meaning for rows that are not touched, or that no row keeps.
_REFUSED: Final = ("dampening", "maximize", "lr_decay", "amsgrad")

KEPT_TWINS: Final = 64  # each push asks for one several times, mostly with the same numbers


class RowStep(NamedTuple):
    """How the tables of a part step in one update.

    ``rate`` multiplies the learning rates of those that have an optimizer of their own;
    the others step as ``following`` says, {table: its twin by now}.
    """

    rate: float = 1.0
    following: Mapping[str, RowOptimizer] = {}

    def of(self, table: str) -> tuple[float, RowOptimizer | None]:
        """Rate and optimizer of a table's step; None: the one that it has."""
        twin = self.following.get(table)
        return (self.rate, None) if twin is None else (1.0, twin)


def twin_of(kind: str, hyper: Hyper) -> RowOptimizer:
    """The lazy twin of an optimizer of torch, by class name and one group's values.

    Raises:
        UsageError: there is none, or it lacks an option that is on; says which.
    """
    if kind not in TWINS:
        raise UsageError(f"{kind} has no lazy twin: {', '.join(TWINS)} have one")
    for name in _REFUSED:
        if hyper.get(name):
            raise UsageError(f"{name} of {kind} has no lazy twin: it was {hyper[name]!r}")
    lr, decay = _number(hyper, "lr"), _number(hyper, "weight_decay")
    if kind == "SGD":
        momentum = _number(hyper, "momentum")
        nesterov = bool(hyper.get("nesterov"))
        return SGD(lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=decay)
    eps = _number(hyper, "eps")
    if kind == "Adagrad":
        begin = _number(hyper, "initial_accumulator_value")
        return Adagrad(lr=lr, initial_accumulator=begin, eps=eps, weight_decay=decay)
    betas = hyper.get("betas")
    if not isinstance(betas, tuple) or len(betas) != 2:
        raise UsageError(f"{kind}: expected two betas, got {betas!r}")
    first, second = betas
    if kind == "AdamW":
        return AdamW(lr=lr, betas=(first, second), eps=eps, weight_decay=decay)
    return Adam(lr=lr, betas=(first, second), eps=eps, weight_decay=decay)


def twin_by_now(kind: str, hyper: Hyper, begun: RowOptimizer) -> RowOptimizer:
    """As `twin_of`, for rows that have the state of the twin that they began with.

    Raises:
        UsageError: there is none, or it needs state that the rows do not have.
    """
    return _twin_by_now(kind, begun, tuple(hyper), *hyper.values())


@functools.lru_cache(KEPT_TWINS, typed=True)  # True is no number, and equals one
def _twin_by_now(
    kind: str, begun: RowOptimizer, names: tuple[str, ...], *values: HyperValue
) -> RowOptimizer:
    twin = twin_of(kind, dict(zip(names, values, strict=True)))
    if state_widths(twin, 1).keys() - state_widths(begun, 1).keys():
        raise UsageError(
            f"its rows began without momentum, which the {kind} has by now: give it from "
            f"the beginning, when the model is shared"
        )
    return twin


def _number(hyper: Hyper, name: str) -> float:
    value = hyper.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"expected {name} to be a number, got {value!r}")
    return float(value)
