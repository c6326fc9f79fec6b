"""Three hogwild trainers count every record once and come to as good a model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import paceline
from paceline.config import SGD, Async, Zeros

RECORDS, BATCH, EPOCHS = 240, 8, 6


class Counting(nn.Module):
    """A line, and a row for each record that counts how often it was trained."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 1)
        self.seen = paceline.Embedding("seen", 1, optimizer=SGD(lr=1.0), init=Zeros())


def _columns() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(RECORDS, 4, generator=draw)
    noise = 0.1 * torch.randn(RECORDS, 1, generator=draw)
    target = features @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]]) + noise
    return torch.arange(RECORDS), features, target


def test_hogwild_counts_every_record_and_learns(run: Callable[..., list[Any]]) -> None:
    columns = _columns()

    def script(session: paceline.Session) -> tuple[float, list[float]]:
        torch.manual_seed(0)
        model = Counting()
        optimizer = session.share(model, torch.optim.Adam(model.line.parameters(), lr=0.05))
        loop = session.batches(columns, BATCH, epochs=EPOCHS, task_size=BATCH)
        for ids, features, target in loop:
            loss = nn.functional.mse_loss(model.line(features), target)
            (loss + model.seen(ids).sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            error = nn.functional.mse_loss(model.line(columns[1]), columns[2])
            return float(error), model.seen(columns[0]).flatten().tolist()

    for error, seen in run(script, pace=Async(isolation="hogwild")):
        assert seen == [-float(EPOCHS)] * RECORDS
        assert error < 0.02, "the noise alone is 0.01"
