"""Models with next to nothing to compute: a step is what lies around its kernels."""

from collections.abc import Iterable, Iterator
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from .model import Batch, Model


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
