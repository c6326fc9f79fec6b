"""Models of more: the 26 fields of `ctr`, alone and with a network; `digits` of `dense`."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import paceline

from .model import Batch, Model


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
