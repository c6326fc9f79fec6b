"""Turns at a slot, and what is done in one.

Waits for nothing. Any thread.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from paceline.messages.shared import Hyper
from paceline.params.dense import OptimizeBlock
from paceline.params.rows import RowStep, ValueTable
from paceline.params.shard import Table
from paceline.server.requests.contents import RowGradients

Action = Callable[[], object]


def nothing() -> None:
    """An action that does nothing."""


class BesideTurn(NamedTuple):
    """A turn that may run beside others of its kind.

    ``attempt`` returns false if it must be alone, with nothing changed; ``alone`` is what
    runs then, by itself. One of the two has its effect.
    """

    attempt: Callable[[], bool]
    alone: Action


class Joint(NamedTuple):
    """A turn alone that may be one with those right behind it.

    ``together`` runs the ``numbers`` of all of them, in order. They must be equal in
    ``kind``; they are ``most`` at a time.
    """

    numbers: Any  # what ``together`` takes
    together: Callable[[list[Any]], None]
    kind: object
    most: int


Turn = Action | BesideTurn | Joint


def apply_rows(tables: Sequence[Table], rows: Sequence[RowGradients], how: RowStep) -> None:
    """Take one step of each table."""
    for table, (name, ids, gradients, replaces) in zip(tables, rows, strict=True):
        if isinstance(table, ValueTable):
            table.apply(ids, gradients, replaces=replaces)
        else:
            table.apply(ids, gradients, *how.of(name))


def apply_compensated(
    block: OptimizeBlock,
    gradient: torch.Tensor,
    then: torch.Tensor,
    factor: float,
    hyper: Hyper,
) -> None:
    """Take one step of a dense block on what its gradient would be by now.

    It is what the gradient's first-order change is on the way from the values ``then``,
    with the diagonal of its outer product for the Hessian (Zheng and others 2016, DC-ASGD,
    arXiv 1609.08326, equation 10, of which ``factor`` is lambda).
    """
    by_now = gradient + factor * gradient * gradient * (block.values - then)
    block.apply(by_now, hyper)
