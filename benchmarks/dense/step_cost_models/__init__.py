"""The models of the step-cost benchmark, for paceline and for the plain loop.

Imported by two names: as a part of `benchmarks`, and beside the loop that is run by its
path.
"""

from typing import Any, final

import torch
from torch import nn

import paceline

from .bare import Both, Dense, Rows, Tensors
from .jobs import Factors, Language, Logistic, Pictures, WideFactors, WideLogistic
from .model import Batch, Model
from .wide import Clicks, Digits, Lookups

__all__ = ["MODELS", "Batch", "Model", "Optimizers", "pair_of", "plain_of"]

MODELS: dict[str, type[Any]] = {
    "dense": Dense,
    "rows": Rows,
    "both": Both,
    "tensors": Tensors,
    "lookups": Lookups,
    "clicks": Clicks,
    "digits": Digits,
    "logistic": Logistic,
    "logistic512": WideLogistic,
    "factors": Factors,
    "factors512": WideFactors,
    "pictures": Pictures,
    "language": Language,
}


def pair_of(kind: str) -> tuple[Model, Model]:
    """A model of paceline's rows, and the same of torch's; they begin alike."""
    model = MODELS[kind]
    rule, _ = model.row_rules()
    shared = paceline.Embedding("rows", model.width, optimizer=rule, init=paceline.Zeros())
    return made(kind, shared), plain_of(kind)


def plain_of(kind: str) -> Model:
    """A model of torch's rows."""
    zeros = torch.zeros(MODELS[kind].ids, MODELS[kind].width)
    return made(kind, nn.Embedding.from_pretrained(zeros, freeze=False, sparse=True))


def made(kind: str, rows: nn.Module) -> Model:
    """A model; whatever was drawn for its rows, two loops begin alike."""
    torch.manual_seed(0)
    model: Model = MODELS[kind](rows)
    return model


@final
class Optimizers:
    """Of a plain loop: that of the network and that of its rows, as one."""

    def __init__(self, model: Model) -> None:
        self._all: list[torch.optim.Optimizer] = []
        if model.linear is not None:
            self._all.append(model.optimizer(model.linear.parameters()))
        if model.rows is not None:
            _, row_optimizer = model.row_rules()
            self._all.append(row_optimizer(model.rows.parameters()))

    def step(self) -> None:
        """Of all."""
        for one in self._all:
            one.step()

    def zero_grad(self) -> None:
        """Of all."""
        for one in self._all:
            one.zero_grad()
