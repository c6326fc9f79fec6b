"""What models of the step-cost benchmark are, whoever trains them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

import paceline

Batch = tuple[Tensor, Tensor, Tensor]  # features, ids, targets; a record is a row of each


class Model(nn.Module, ABC):
    """What is learned, by paceline and by the plain loop; `linear` and `rows` may be None.

    Attributes:
        batch, ids, width: records of a batch, ids that there are, numbers of a row.
        slower: times fewer steps are measured of it than of others.
    """

    batch, ids, width, slower = 8, 64, 4, 1

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
