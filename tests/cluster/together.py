"""What trainers in one process share, evaluate and predict."""

from typing import Any

import torch
from torch import nn

import paceline

RECORDS, BATCH, TASK = 103, 4, 12


def columns() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(RECORDS, 3, generator=draw)
    return features, (
        features.sum(1) + 0.5 * torch.randn(RECORDS, generator=draw) > 0
    ).long()


def shared(session: paceline.Session, model: nn.Module) -> Any:
    return session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
