"""A model with dense layers, rows and a sparse embedding, in float64 where torch allows."""

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

import paceline

RECORDS, BATCH, IDS = 208, 4, 40


def make_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, ids and targets."""
    draw = torch.Generator().manual_seed(5)
    features = torch.randn(RECORDS, 5, generator=draw, dtype=torch.float64)
    ids = torch.randint(0, IDS, (RECORDS, 3), generator=draw)
    target = torch.randn(RECORDS, 1, generator=draw, dtype=torch.float64)
    return features, ids, target


class Model(nn.Module):
    """Rows of ``rows``, whatever module that is, beside dense features."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.rows = rows
        self.layers = nn.Sequential(
            nn.Linear(5 + 12, 8), nn.Tanh(), nn.Linear(8, 1)
        ).double()

    def forward(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """One number a record."""
        return self.layers(torch.cat([features, self.rows(ids).flatten(1).double()], 1))


def main(out: Path, rows: str, accumulate: int, task_size: int) -> None:
    """Train an epoch; every process writes what it has."""
    session = paceline.connect()
    if rows == "table":
        module: nn.Module = paceline.Embedding(
            "rows", 4, optimizer=paceline.SGD(lr=0.1), init=paceline.Zeros()
        )
    else:
        module = nn.Embedding(IDS, 4, sparse=rows == "sparse", _weight=torch.zeros(IDS, 4))
    model = Model(module)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    steps = 0
    batches = session.batches(make_data(), BATCH, seed=11, task_size=task_size)
    for number, (features, ids, target) in enumerate(batches):
        loss = nn.functional.mse_loss(model(features, ids), target) / accumulate
        loss.backward()
        steps += 1
        if number % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
            session.log(loss=loss.item())
    model.eval()
    with torch.no_grad():
        values = model.rows(torch.arange(IDS)).contiguous()
    found = {"rows": values, "steps": torch.tensor(steps), **model.layers.state_dict()}
    found["records"] = torch.tensor(session.records)
    if session.once("one of all"):
        found["once"] = torch.tensor(1)
    place = f"{os.environ['PACELINE_ROLE']}.{os.environ.get('PACELINE_RANK', '0')}"
    save_file(found, out / f"{place}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
