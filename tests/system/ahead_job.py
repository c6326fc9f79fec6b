"""A job whose script takes batches ahead of their steps, and counts every record.

Every record adds 1 to its own parameter: plain SGD with a learning rate of 1, and the loss
is the sum of all that it touches, negated.
"""

import argparse
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

import paceline


class Counts(nn.Module):
    """How often each record was stepped over."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(records))


def ahead(batches: Iterable[Tensor], number: int) -> Iterator[Tensor]:
    """The same batches, ``number`` of them taken ahead."""
    held: deque[Tensor] = deque()
    for batch in batches:
        held.append(batch)
        if len(held) > number:
            yield held.popleft()
    yield from held


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=480)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--task-size", type=int, default=24)
    parser.add_argument("--lookahead", type=int, default=2)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()

    session = paceline.connect()
    model = Counts(flags.records)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    said = {"task_size": flags.task_size, "lookahead": flags.lookahead}
    for _epoch in range(flags.epochs):
        for ids in ahead(
            session.batches(torch.arange(flags.records), 4, **said), flags.lookahead
        ):
            time.sleep(flags.sleep_ms / 1000)
            optimizer.zero_grad()
            (-model.seen[ids].sum()).backward()
            optimizer.step()
    records, expected = session.records, flags.records * flags.epochs
    if session.once("check"):
        wrong = int((model.seen != flags.epochs).sum())
        exact = wrong == 0 and records == expected
        verdict = {"exact": exact, "wrong": wrong, "records": records}
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
