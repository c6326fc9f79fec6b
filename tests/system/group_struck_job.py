"""A counting job in the middle of which every process waits, until a file says go.

Every record adds 1 to its own row, and 1 to one dense parameter.
"""

import json
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import paceline

RECORDS, BATCH, IDS, TASK = 1600, 16, 50, 80
BEFORE = 8  # batches of a process until it waits


class Counter(nn.Module):
    """A row for every id, and a total."""

    def __init__(self) -> None:
        super().__init__()
        self.count = paceline.Embedding(
            "count", 1, optimizer=paceline.SGD(lr=1.0), init=paceline.Zeros()
        )
        self.total = nn.Parameter(torch.zeros(1))

    def forward(self, ids: Tensor) -> Tensor:
        """A loss whose gradient is -1 per record, at its row and at the total."""
        return -(self.count(ids).sum() + len(ids) * self.total.sum())


def main(out: Path, go: Path) -> None:
    """Count; one process writes what is wrong."""
    data = torch.randint(0, IDS, (RECORDS,), generator=torch.Generator().manual_seed(1))
    session = paceline.connect()
    model = Counter()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for number, ids in enumerate(session.batches(data, BATCH, task_size=TASK)):
        time.sleep(0.02)
        while number >= BEFORE and not go.exists():
            time.sleep(0.02)
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    if session.once("check"):
        model.eval()
        counts = model.count(torch.arange(IDS)).flatten()
        rows_wrong = int((counts != torch.bincount(data, minlength=IDS)).sum())
        exact = rows_wrong == 0 and float(model.total.item()) == RECORDS
        out.write_text(json.dumps({"exact": exact, "rows_wrong": rows_wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
