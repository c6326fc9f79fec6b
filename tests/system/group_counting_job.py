"""The counting job with a dense part so large that the ranks of a trainer share its way.

Every record adds 1 to its own row and to every element of a wide dense parameter; float32
holds these counts exactly.
"""

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import paceline

RECORDS, BATCH, IDS, EPOCHS = 1280, 8, 50, 2
WIDE = 1 << 21  # elements: 4 MiB at each of two servers


class Counter(nn.Module):
    """A row for every id, and a total that is told many times over."""

    def __init__(self) -> None:
        super().__init__()
        self.count = paceline.Embedding(
            "count", 1, optimizer=paceline.SGD(lr=1.0), init=paceline.Zeros()
        )
        self.total = nn.Parameter(torch.zeros(WIDE))

    def forward(self, ids: Tensor) -> Tensor:
        """A loss whose gradient is -1 per record, at its row and all of the total."""
        return -(self.count(ids).sum() + len(ids) * self.total.sum())


def main(out: Path, weight: float) -> None:
    """Count, each record for ``weight``; one process writes what is wrong."""
    data = torch.randint(0, IDS, (RECORDS,), generator=torch.Generator().manual_seed(1))
    session = paceline.connect()
    model = Counter()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for ids in session.batches(data, BATCH, epochs=EPOCHS, task_size=10 * BATCH):
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    if session.once("check"):
        model.eval()
        counts = model.count(torch.arange(IDS)).flatten()
        expected = torch.bincount(data, minlength=IDS) * EPOCHS * weight
        verdict = {
            "rows wrong": int((counts != expected).sum()),
            "dense wrong": int((model.total != RECORDS * EPOCHS * weight).sum()),
        }
        out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
