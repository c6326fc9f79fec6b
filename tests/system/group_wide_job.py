"""A model whose dense part is large enough for the ranks of a trainer to share its way.

Each process writes its model, and what it has itself sent to servers and read from them.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import torchmetrics
from safetensors.torch import save_file
from torch import nn

import paceline
from paceline.messages.data import Push
from paceline.params.published import ValuesReader
from paceline.transport.streams.connection import StreamConnection

RECORDS, BATCH, IDS, WIDTH = 48, 4, 40, 1024
WIDE = 9 + 12
COUNTED = ("pushes", "pushed bytes", "reads", "read bytes")


def make_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, ids and targets."""
    draw = torch.Generator().manual_seed(5)
    features = torch.randn(RECORDS, 9, generator=draw, dtype=torch.float64)
    ids = torch.randint(0, IDS, (RECORDS, 3), generator=draw)
    target = torch.randn(RECORDS, 1, generator=draw, dtype=torch.float64)
    return features, ids, target


class Model(nn.Module):
    """Rows beside dense features, behind them 8 MiB and more of weights in float64."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.rows = rows
        self.layers = nn.Sequential(
            nn.Linear(WIDE, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()
        ).double()
        self.last = nn.Linear(WIDTH, 1).double()

    def forward(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """One number a record."""
        wide = torch.cat([features, self.rows(ids).flatten(1).double()], 1)
        return self.last(self.layers(wide))


def counting() -> Counter[str]:
    """What this process sends and reads from now on."""
    found: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    submit, read = StreamConnection.submit, ValuesReader.read_into

    @wraps(submit)
    def counted_submit(
        self: StreamConnection, message: Any, buffers: Sequence[Any] = (), **how: Any
    ) -> int:
        if isinstance(message, Push):
            found["pushes"] += 1
            found["pushed bytes"] += sum(memoryview(one).nbytes for one in buffers)
        return submit(self, message, buffers, **how)

    @wraps(read)
    def counted_read(self: ValuesReader, places: Any, *more: Any) -> Any:
        found["reads"] += 1
        found["read bytes"] += sum(place.nbytes for place in places.values())
        return read(self, places, *more)

    patched: list[tuple[type, str, Callable[..., Any]]] = [
        (StreamConnection, "submit", counted_submit),
        (ValuesReader, "read_into", counted_read),
    ]
    for owner, name, function in patched:
        setattr(owner, name, function)
    return found


def main(out: Path, task_size: int) -> None:
    """Train, evaluate, train on; every process writes what it has."""
    session = paceline.connect()
    counted = counting()
    rows = paceline.Embedding(
        "rows", 4, optimizer=paceline.SGD(lr=0.005), init=paceline.Zeros()
    )
    model = Model(rows)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.005))

    def train() -> None:
        for features, ids, target in session.batches(
            make_data(), BATCH, seed=11, task_size=task_size
        ):
            nn.functional.mse_loss(model(features, ids), target).backward()
            optimizer.step()
            optimizer.zero_grad()

    train()
    mean = session.evaluate(
        torchmetrics.MeanMetric(),
        lambda batch: model(batch[0], batch[1]),
        make_data(),
        batch_size=8,
    )
    train()
    model.eval()
    with torch.no_grad():
        values = model.rows(torch.arange(IDS)).contiguous()
    found = {"rows": values, "mean": torch.as_tensor(mean).float()}
    dense = {name: p for name, p in model.state_dict().items() if name != "rows"}
    found |= {name: p.contiguous() for name, p in dense.items()}
    found |= {name: torch.tensor(counted[name]) for name in COUNTED}
    place = f"{os.environ['PACELINE_ROLE']}.{os.environ.get('PACELINE_RANK', '0')}"
    save_file(found, out / f"{place}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
