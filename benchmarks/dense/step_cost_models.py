"""The models of the step-cost benchmark, for paceline and for the plain loop.

They have next to nothing to compute, so that a step is what lies around its kernels; two of
them, `clicks` and `digits`, are as `ctr` and `dense` have them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
)

import paceline

Batch = tuple[Tensor, Tensor, Tensor]  # features, ids, targets; a record is a row of each


class Model(nn.Module, ABC):
    """What is learned, by paceline and by the plain loop; `linear` and `rows` may be None.

    Attributes:
        batch, ids, width: records of a batch, ids that there are, numbers of a row.
    """

    batch, ids, width = 8, 64, 4

    def __init__(self, rows: nn.Module | None, linear: nn.Module | None) -> None:
        super().__init__()
        self.rows, self.linear = rows, linear

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""

    @staticmethod
    def row_rules() -> tuple[Any, Any]:
        """How rows learn: paceline's rule, and torch's optimizer of parameters."""
        return paceline.SGD(lr=0.01), lambda values: torch.optim.SGD(values, lr=0.01)

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Of the network."""
        return torch.optim.SGD(parameters, lr=0.01)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """So many records; every row is there after the first few."""
        ids = torch.cat([torch.arange(cls.ids), torch.randint(0, cls.ids, (records,))])
        return torch.randn(records, cls.width), ids[:records], torch.randn(records)


class Small(Model):
    """Next to nothing to compute: one linear layer, rows that are added up, or both."""

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        features, ids, targets = batch
        if self.rows is not None:
            features = features + self.rows(ids)
        found = features.sum(1) if self.linear is None else self.linear(features).squeeze(1)
        return mse_loss(found, targets)


@final
class Dense(Small):
    """4 -> 1."""

    def __init__(self, _: nn.Module) -> None:
        super().__init__(None, nn.Linear(self.width, 1))


@final
class Rows(Small):
    """Four numbers of a row."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__(rows, None)


@final
class Both(Small):
    """Rows and a layer."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__(rows, nn.Linear(self.width, 1))


def resnet_shapes(part: int) -> Iterator[tuple[int, ...]]:
    """Of the 161 parameters of a ResNet-50 in their order, with a part of its channels.

    Args:
        part: 16 for a sixteenth.
    """

    def convolution(out: int, into: int, side: int) -> list[tuple[int, ...]]:
        return [(out, into, side, side), (out,), (out,)]  # and its norm's weight and bias

    yield from convolution(64 // part, 3, 7)
    into = 64 // part
    for wide, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        inner, out = wide // part, 4 * wide // part
        for block in range(blocks):
            yield from convolution(inner, into, 1)
            yield from convolution(inner, inner, 3)
            yield from convolution(out, inner, 1)
            if not block:  # what goes past the block is as wide as what comes out
                yield from convolution(out, into, 1)
            into = out
    yield from ((1024 // part, into), (1024 // part,))


@final
class Tensors(Model):
    """161 tensors of a ResNet-50's shapes, 16 times narrower, under SGD with momentum.

    All their numbers are weights of one sum, so that no convolution is computed.
    """

    def __init__(self, _: nn.Module) -> None:
        found = [nn.Parameter(torch.randn(shape)) for shape in resnet_shapes(16)]
        super().__init__(None, nn.ParameterList(found))

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert isinstance(self.linear, nn.ParameterList)
        flat = torch.cat([values.flatten() for values in self.linear])
        weights = flat.view(-1, self.width).sum(0) / 200
        return mse_loss(batch[0] @ weights, batch[2])

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """SGD with momentum, as it is used for such networks."""
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)


class Fields(Model):
    """26 id fields of 16 numbers, batches of 512."""

    batch, ids, width = 512, 100_000, 16
    fields = 26

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Ids of which few are drawn often."""
        often = torch.rand(records, cls.fields).pow_(6).mul_(cls.ids)
        return (
            torch.zeros(records, 0),
            often.long(),
            torch.randint(0, 2, (records,)).float(),
        )


@final
class Lookups(Fields):
    """The rows alone, added up, under lazy Adam."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__(rows, None)

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.rows is not None
        logits = self.rows(batch[1]).sum((1, 2))
        return binary_cross_entropy_with_logits(logits, batch[2])

    @staticmethod
    def row_rules() -> tuple[Any, Any]:
        """Adam as `torch.optim.SparseAdam` has it."""
        return paceline.Adam(lr=1e-3), lambda some: torch.optim.SparseAdam(some, lr=1e-3)


@final
class Clicks(Fields):
    """Network 416-128-64-1 under Adam, rows under Adagrad."""

    def __init__(self, rows: nn.Module) -> None:
        wide = self.fields * self.width
        layers = (nn.Linear(wide, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        super().__init__(rows, nn.Sequential(*layers, nn.Linear(64, 1)))

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.rows is not None
        assert self.linear is not None
        logits = self.linear(self.rows(batch[1]).flatten(1)).squeeze(1)
        return binary_cross_entropy_with_logits(logits, batch[2])

    @staticmethod
    def row_rules() -> tuple[Any, Any]:
        """Adagrad."""
        return paceline.Adagrad(lr=0.01), lambda some: torch.optim.Adagrad(some, lr=0.01)

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)


@final
class Digits(Model):
    """784-1024-1024-10 under Adam, batches of 8."""

    width = 784

    def __init__(self, _: nn.Module) -> None:
        layers = (nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
        super().__init__(None, nn.Sequential(*layers, nn.Linear(1024, 10)))

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.linear is not None
        return cross_entropy(self.linear(batch[0]), batch[2])

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Noise and ten classes."""
        features, ids = torch.randn(records, cls.width), torch.zeros(records, 0)
        return features, ids, torch.randint(0, 10, (records,))


MODELS: dict[str, type[Any]] = {
    "dense": Dense,
    "rows": Rows,
    "both": Both,
    "tensors": Tensors,
    "lookups": Lookups,
    "clicks": Clicks,
    "digits": Digits,
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
