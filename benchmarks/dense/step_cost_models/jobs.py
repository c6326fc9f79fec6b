"""Small jobs as people first run them: a regression, factors, a language model, pictures.

Their data are drawn, of the shapes that are named; what counts is how long a step takes.
"""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
)

from .model import Batch, Model


class Regression(Model):
    """A logistic regression on 123 columns of which 14 are ones, as those of a9a."""

    width, ones = 123, 14

    def __init__(self, _: nn.Module) -> None:
        super().__init__(None, nn.Linear(self.width, 1))

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.linear is not None
        logits = self.linear(batch[0]).squeeze(1)
        return binary_cross_entropy_with_logits(logits, batch[2])

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Ones anywhere."""
        features = torch.zeros(records, cls.width)
        features.scatter_(1, torch.randint(0, cls.width, (records, cls.ones)), 1.0)
        targets = torch.randint(0, 2, (records,)).float()
        return features, torch.zeros(records, 0), targets


@final
class Logistic(Regression):
    """In batches of 64."""

    batch = 64


@final
class WideLogistic(Regression):
    """In batches of 512."""

    batch = 512


class Matrix(Model):
    """A matrix of 6,040 x 3,706, as of MovieLens 1M, in 16 factors under SGD."""

    width = 16
    users, items = 6040, 3706
    ids = users + items

    def __init__(self, rows: nn.Module) -> None:
        super().__init__(rows, None)

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.rows is not None
        # Rows begin at zero, where the product of two has no gradient.
        user, item = (self.rows(batch[1]) + 0.1).unbind(1)
        return mse_loss((user * item).sum(1), batch[2])

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Who has rated what, and how."""
        user = torch.randint(0, cls.users, (records,))
        item = cls.users + torch.randint(0, cls.items, (records,))
        return torch.zeros(records, 0), torch.stack([user, item], 1), torch.randn(records)


@final
class Factors(Matrix):
    """In batches of 64."""

    batch = 64


@final
class WideFactors(Matrix):
    """In batches of 512."""

    batch = 512


@final
class Block(nn.Module):
    """Attention to what came before, and a hidden layer; both add to what goes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asks = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.hidden = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width), the same coming out."""
        asks = self.asks(self.first(tokens)).unflatten(2, (3, self.heads, -1))
        query, key, value = asks.permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        tokens = tokens + self.out(found.transpose(1, 2).flatten(2))
        return tokens + self.hidden(self.second(tokens))


@final
class Language(Model):
    """A GPT of 0.8 million parameters under AdamW: nanoGPT's of characters for a CPU.

    Four blocks of 128 with four heads, 64 tokens of 65 kinds, batches of 12.
    """

    batch, width, kinds, tokens, slower = 12, 128, 65, 64, 10

    def __init__(self, _: nn.Module) -> None:
        layers = nn.ModuleDict(
            {
                "kinds": nn.Embedding(self.kinds, self.width),
                "places": nn.Embedding(self.tokens, self.width),
                "blocks": nn.Sequential(*(Block(self.width, 4) for _ in range(4))),
                "norm": nn.LayerNorm(self.width),
                "head": nn.Linear(self.width, self.kinds, bias=False),
            }
        )
        super().__init__(None, layers)

    def loss(self, batch: Batch) -> Tensor:
        """Of the tokens that come next."""
        layers: Any = self.linear
        known, wanted = batch[1][:, :-1], batch[1][:, 1:]
        told = layers["kinds"](known) + layers["places"].weight
        found = layers["head"](layers["norm"](layers["blocks"](told)))
        return cross_entropy(found.flatten(0, 1), wanted.flatten())

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Tokens that count up from anywhere."""
        began = torch.randint(0, cls.kinds, (records, 1))
        ids = (began + torch.arange(cls.tokens + 1)) % cls.kinds
        return torch.zeros(records, 0), ids, torch.zeros(records)


@final
class Pictures(Model):
    """A CNN of 28 x 28 under Adam, batches of 32: two convolutions and two layers."""

    batch, width = 32, 784

    def __init__(self, _: nn.Module) -> None:
        layers = nn.Sequential(
            *(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10)),
        )
        super().__init__(None, layers)

    def loss(self, batch: Batch) -> Tensor:
        """Of a batch."""
        assert self.linear is not None
        return cross_entropy(self.linear(batch[0].view(-1, 1, 28, 28)), batch[2])

    @staticmethod
    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)

    @classmethod
    def draw(cls, records: int) -> Batch:
        """Noise and ten classes."""
        features = torch.randn(records, cls.width)
        return features, torch.zeros(records, 0), torch.randint(0, 10, (records,))
