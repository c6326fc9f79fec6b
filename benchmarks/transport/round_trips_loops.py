"""The trainer of the benchmark of round trips: each of its steps is timed.

``python benchmarks/transport/round_trips_loops.py --out result.json --plan '{...}'``

Waits: for the job.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import paceline

BATCH = 8
FIELDS, IDS, DIM = 4, 1000, 8
WIDTH = FIELDS * DIM
LR = 0.01


class Plan(NamedTuple):
    """What a trainer is to do.

    Args:
        has_rows: the model looks up rows for each record; else it is dense alone.
        warm: steps before the clock.
        timed: steps behind them.
        task: batches.
    """

    has_rows: bool
    warm: int
    timed: int
    task: int


class Model(nn.Module):
    """A network of 1,089 parameters, behind rows or not."""

    def __init__(self, *, has_rows: bool) -> None:
        super().__init__()
        self.rows: nn.Module = nn.Identity()
        if has_rows:
            self.rows = paceline.Embedding("rows", DIM, optimizer=paceline.SGD(lr=LR))
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
        )

    def forward(self, records: Tensor) -> Tensor:
        """One number of each record: of its ids, or of its columns."""
        found: Tensor = self.network(self.rows(records).flatten(1))
        return found


def records_of(plan: Plan) -> Tensor:
    """Ids ``(records, FIELDS)`` int64, or columns ``(records, WIDTH)`` float32."""
    torch.manual_seed(1)
    count = BATCH * (plan.warm + plan.timed + 1)  # a step ends where the next begins
    if plan.has_rows:
        return torch.randint(IDS, (count, FIELDS))
    return torch.randn(count, WIDTH)


def run(session: paceline.Session, plan: Plan) -> dict[str, object]:
    """Train: the seconds of each timed step, and the loss of each."""
    model = Model(has_rows=plan.has_rows)
    network = torch.optim.SGD(model.network.parameters(), lr=LR)
    optimizer = session.share(model, network)
    began_s, losses = list[float](), list[float]()
    batches = session.batches(
        records_of(plan), BATCH, shuffle=False, task_size=plan.task * BATCH
    )
    for batch in batches:
        began_s.append(time.perf_counter())
        loss = (model(batch) - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    seconds = [end - begin for begin, end in itertools.pairwise(began_s)]
    return {"seconds": seconds[plan.warm :], "losses": losses}


def main() -> None:
    """Be the trainer, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plan", required=True, help="a Plan as JSON")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    found = run(paceline.connect(), Plan(**json.loads(flags.plan)))
    flags.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
