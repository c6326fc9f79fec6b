"""A counting job whose numbers lie in shared memory wherever they can.

Every record adds 1 to all elements of its own row, and every batch its number of records
to all elements of dense blocks that are large enough to travel through mailboxes and are
lent by their servers. Rows of the next batch are asked for behind each push. The verdict
also holds which memory is left of processes that have died.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from leftovers import holding, memory_of_the_dead, processes_of  # beside this script
from torch import Tensor, nn

import paceline
from paceline.timing import Deadline, SystemClock

IDS, DIM, DENSE = 4096, 16, 32_768
SETTLE_S = 60.0


class Counter(nn.Module):
    """Rows of `DIM` counts, and two large dense parameters of one count each."""

    def __init__(self) -> None:
        super().__init__()
        self.count = paceline.Embedding(
            "count", DIM, optimizer=paceline.SGD(lr=1.0), init=paceline.Zeros()
        )
        self.first = nn.Parameter(torch.zeros(DENSE, dtype=torch.float64))
        self.second = nn.Parameter(torch.zeros(DENSE // 2, dtype=torch.float64))

    def forward(self, ids: Tensor) -> Tensor:
        """A loss whose gradient is -1 per record, at its row and at all dense elements."""
        dense = self.first.sum() + self.second.sum()
        return -(self.count(ids).sum() + len(ids) * dense)


def check(model: Counter, histogram: Tensor, epochs: int) -> dict[str, object]:
    """Compare the counts with the histogram of the data."""
    model.eval()
    with torch.no_grad():
        rows = model.count(torch.arange(len(histogram)))
        wanted = (histogram * epochs)[:, None].expand(len(histogram), DIM)
    expected = int(histogram.sum()) * epochs
    dense_wrong = sum(int((p != expected).sum()) for p in (model.first, model.second))
    rows_wrong = int((rows != wanted).any(dim=1).sum())
    return {
        "exact": rows_wrong == dense_wrong == 0,
        "rows_wrong": rows_wrong,
        "dense_wrong": dense_wrong,
        "expected": expected,
    }


def wait_settled() -> list[str]:
    """What the job's processes still hold of dead ones, once that does not get less."""
    clock = SystemClock()
    deadline = Deadline(clock, SETTLE_S)
    while left := memory_of_the_dead(processes_of(os.getppid())):
        if deadline.is_over():
            break
        time.sleep(0.1)  # servers see that a trainer has gone
    return left


def main() -> None:
    """Count in all trainers, check in one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=40_960)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--task-size", type=int, default=2048)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    parser.add_argument("--own-rows", action="store_true", help="no two records share one")
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()

    draw = torch.Generator().manual_seed(0)
    data = torch.randint(0, IDS, (flags.records,), generator=draw)
    if flags.own_rows:
        data = torch.arange(flags.records)
    session = paceline.connect()
    model = Counter()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for ids in session.batches(
        data, flags.batch_size, epochs=flags.epochs, task_size=flags.task_size
    ):
        time.sleep(flags.sleep_ms / 1000)
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()

    if session.once("check"):
        verdict = check(model, torch.bincount(data), flags.epochs)
        mine = holding(os.getpid())
        assert mine is not None
        verdict["memory"] = len(mine.memory)
        verdict["left"] = wait_settled()
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
