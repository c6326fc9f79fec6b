"""One candidate of the CTR benchmark, as a process of its own.

::

    python benchmarks/ctr_loops.py paceline --data data.npz --out result.json ...

    sparse    nn.Embedding(sparse=True) under SparseAdam or Adagrad; the network, fused Adam
    dense     nn.Embedding with a dense gradient, all under fused Adam (or Adagrad)
    floor     forward and backward of `sparse`, no update: what computing alone takes
    paceline  the same model in the job that the environment names

All see the same batches in the same order, and touch all memory before the clock starts:
every row exists, with its optimizer's state. The held-out loss is taken afterwards.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import paceline
from benchmarks.harness.stopwatch import Stopwatch

DIM = 16
HALF_WIDTH = 0.05  # of a new row's values
ROWS_LR = {"adam": 0.01, "adagrad": 0.05}
NETWORK_LR = 1e-3
TOUCHED_AT_ONCE = 16_384

Batch = tuple[Tensor, Tensor]  # ids (batch, fields) int64, labels (batch,) float32


class Plan(NamedTuple):
    """What a candidate is to do."""

    ids: int
    batch: int
    warm: int
    timed: int
    rows: str
    task_batches: int = 0  # of a task; 0: as the job cuts them by itself
    rows_lr: float = 0.0  # of a job's rows; 0: as `ROWS_LR` says


class Model(nn.Module):
    """Rows of all fields side by side, and a network: 416-128-64-1 for 26 fields."""

    def __init__(self, rows: nn.Module, fields: int) -> None:
        super().__init__()
        self.rows = rows
        torch.manual_seed(0)  # whatever was drawn for the rows: all networks begin alike
        self.network = nn.Sequential(
            nn.Linear(fields * DIM, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Logits ``(batch,)`` of ids ``(batch, fields)``."""
        logits: Tensor = self.network(self.rows(ids).flatten(1)).squeeze(1)
        return logits


def train(model: Model, batches: Iterable[Batch], step: Callable[[], None]) -> None:
    """The loop that all candidates share."""
    for ids, labels in batches:
        binary_cross_entropy_with_logits(model(ids), labels).backward()
        step()


def run_plain(kind: str, data: Batch, plan: Plan) -> tuple[Model, Stopwatch]:
    """A plain loop in this process; ``floor`` never updates."""
    ids, labels = data
    torch.manual_seed(1)
    rows = nn.Embedding(plan.ids, DIM, sparse=kind != "dense")
    nn.init.uniform_(rows.weight, -HALF_WIDTH, HALF_WIDTH)
    model = Model(rows, ids.shape[1])
    optimizers = [] if kind == "floor" else _optimizers(model, kind, plan.rows)

    def step() -> None:
        is_first = any(not optimizer.state for optimizer in optimizers)
        for optimizer in optimizers:
            optimizer.step()
        if is_first:
            _touch_state(optimizers)
        model.zero_grad()

    watch = Stopwatch(plan.warm, plan.timed)
    cut = zip(ids.split(plan.batch), labels.split(plan.batch), strict=True)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # torch's default, said
        train(model, watch.watch(cut), step)
    return model, watch


def run_paceline(
    session: paceline.Session, data: Batch, plan: Plan
) -> tuple[Model, Stopwatch]:
    """The same as a trainer of a job."""
    lr = plan.rows_lr or ROWS_LR[plan.rows]
    rule: dict[str, Any] = {
        "adam": paceline.Adam(lr=lr, steps="row"),
        "adagrad": paceline.Adagrad(lr=lr),
    }
    rows = paceline.Embedding(
        "rows",
        DIM,
        optimizer=rule[plan.rows],
        init=paceline.Uniform(HALF_WIDTH),
    )
    model = Model(rows, data[0].shape[1])
    network = torch.optim.Adam(model.network.parameters(), lr=NETWORK_LR)
    optimizer = session.share(model, network)
    for some in torch.arange(plan.ids).split(TOUCHED_AT_ONCE):
        model.rows(some)  # a row is made, with its state, when it is first looked up

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    watch = Stopwatch(plan.warm, plan.timed)
    task_size = plan.batch * plan.task_batches or None
    batches = session.batches(
        data, batch_size=plan.batch, shuffle=False, task_size=task_size
    )
    train(model, watch.watch(batches), step)
    return model, watch


def _optimizers(model: Model, kind: str, rows: str) -> list[torch.optim.Optimizer]:
    network = torch.optim.Adam(model.network.parameters(), lr=NETWORK_LR, fused=True)
    table, lr = model.rows.parameters(), ROWS_LR[rows]
    if kind == "dense":
        rule = torch.optim.Adam if rows == "adam" else torch.optim.Adagrad
        return [rule(table, lr=lr, fused=True), network]
    if rows == "adam":
        return [torch.optim.SparseAdam(list(table), lr=lr), network]
    return [torch.optim.Adagrad(table, lr=lr), network]


def _touch_state(optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Let the kernel find every page of the state now: made, it is only promised."""
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor) and value.is_floating_point():
                    value.add_(0.0)


def held_out_loss(model: Model, data: Batch) -> float:
    """Mean loss over records that no step has seen."""
    model.eval()
    ids, labels = data
    with torch.no_grad():
        logits = torch.cat([model(some) for some in ids.split(8192)])
        return binary_cross_entropy_with_logits(logits, labels).item()


def main() -> None:
    """Run one candidate and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["sparse", "dense", "floor", "paceline"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plan", required=True, help="a Plan as JSON")
    parser.add_argument("--threads", type=int, required=True)
    flags = parser.parse_args()
    plan = Plan(**json.loads(flags.plan))
    torch.set_num_threads(flags.threads)
    with np.load(flags.data) as arrays:
        ids, labels = torch.from_numpy(arrays["ids"]), torch.from_numpy(arrays["labels"])
    stop = (plan.warm + plan.timed) * plan.batch
    train_data, held_out = (ids[:stop], labels[:stop]), (ids[stop:], labels[stop:])
    if flags.kind == "paceline":
        model, watch = run_paceline(paceline.connect(), train_data, plan)
    else:
        model, watch = run_plain(flags.kind, train_data, plan)
    result = {
        "seconds": watch.seconds,
        "loss": held_out_loss(model, held_out),
        "cpu_ms": watch.cpu_ms,
    }
    flags.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
