"""The counting job: after any number of kills, every record has counted exactly once.

Every record adds 1 to its own row, 1 to its row of an ordinary sparse embedding and 1 to
one dense parameter: the loss is the sum of all that it touches, negated, and plain SGD
with a learning rate of 1 does the rest. In the end both tables are the histogram of the
data, times the epochs. Under ``sync`` say
``--pace sync:reduce=sum``: the mean of two trainers' counts is not a count.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import paceline

READ_BATCH = 8192


class Counter(nn.Module):
    """A row for every id, twice, and a total."""

    def __init__(self, num_ids: int) -> None:
        super().__init__()
        # float32 counts exactly up to 2**24, float64 up to 2**53.
        self.count = paceline.Embedding(
            "count", 1, optimizer=paceline.SGD(lr=1.0), init=paceline.Zeros()
        )
        self.plain = nn.Embedding(num_ids, 1, sparse=True, _weight=torch.zeros(num_ids, 1))
        self.total = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, ids: Tensor) -> Tensor:
        """A loss whose gradient is -1 per record, at its rows and at the total."""
        rows = self.count(ids).sum() + self.plain(ids).sum()
        return -(rows + len(ids) * self.total.sum())


def check(model: Counter, histogram: Tensor, epochs: int) -> dict[str, object]:
    """Compare the shared counts with the histogram of the data."""
    model.eval()
    with torch.no_grad():
        batches = torch.arange(len(histogram)).split(READ_BATCH)
        counts = torch.cat([model.count(ids).flatten() for ids in batches])
    rows_wrong = int((counts != histogram * epochs).sum())
    plain_wrong = int((model.plain.weight.flatten() != histogram * epochs).sum())
    expected, dense = int(histogram.sum()) * epochs, float(model.total.item())
    return {
        "expected": expected,
        "exact": rows_wrong == plain_wrong == 0 and dense == expected,
        "dense": dense,
        "rows_wrong": rows_wrong,
        "plain_wrong": plain_wrong,
    }


def main() -> None:
    """Count, then check in one trainer; exit with 1 if anything is off by one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=6400)
    parser.add_argument("--ids", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--task-size", type=int, default=None)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="file for the verdict")
    flags = parser.parse_args()

    draw = np.random.default_rng(flags.seed)
    data = torch.from_numpy(draw.integers(0, flags.ids, flags.records))
    session = paceline.connect()
    model = Counter(flags.ids)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))

    for ids in session.batches(
        data,
        batch_size=flags.batch_size,
        epochs=flags.epochs,
        seed=flags.seed,
        task_size=flags.task_size,
    ):
        time.sleep(flags.sleep_ms / 1000)
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()

    if session.once("check"):
        histogram = torch.bincount(data, minlength=flags.ids)
        verdict = check(model, histogram, flags.epochs)
        print(json.dumps(verdict))
        if flags.out is not None:
            flags.out.write_text(json.dumps(verdict))
        if not verdict["exact"]:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
