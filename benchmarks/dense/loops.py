"""One process of the dense benchmark.

::

    python benchmarks/dense_loops.py paceline --data data.npz --out folder --plan ...

    ddp       one of two processes under DistributedDataParallel over Gloo
    paceline  one of two trainers of the job that the environment names, in `sync`
    floor     forward, backward and Adam, alone: nothing is exchanged
    link      as `paceline`, over a link whose bytes it counts as well

All begin with the same network and use torch's fused Adam. In every step the two take the
same two batches: tasks of `Plan.task` batches each, one for either.
"""

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import paceline
from benchmarks.dense.network import read_traffic
from benchmarks.harness.stopwatch import Stopwatch
from paceline.testing.machines import DEVICE

FEATURES, WIDTH, CLASSES = 784, 1024, 10
LR = 1e-3
SIDES = 2  # trainers, or processes of DDP
OURS = ("paceline", "link")
KINDS = ("ddp", "floor", *OURS)
HOOKS = {"fp16": default_hooks.fp16_compress_hook}  # DDP's others want NCCL

Batch = tuple[Tensor, Tensor]  # features (batch, FEATURES) float32, labels (batch,) int64


class Plan(NamedTuple):
    """What a candidate is to do; steps are counted by batches of one side."""

    batch: int
    warm: int
    timed: int
    task: int = 10  # batches


def make_model(width: int = WIDTH) -> nn.Sequential:
    """784-1024-1024-10: 1,863,690 parameters, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def batches_of(side: int, data: Batch, plan: Plan) -> Iterator[Batch]:
    """What a side of two trains on: every second task."""
    features, labels = (column.split(plan.batch) for column in data)
    for step in range(plan.warm + plan.timed):
        task = SIDES * (step // plan.task) + side
        number = task * plan.task + step % plan.task
        yield features[number], labels[number]


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
) -> None:
    """The loop that all candidates share."""
    for features, labels in batches:
        cross_entropy(model(features), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


def run_alone(
    side: int,
    model: nn.Module,
    data: Batch,
    plan: Plan,
    meeting: str = "",
    codec: str = "",
) -> Stopwatch:
    """A side in this process; with a place to meet, one of two under DDP.

    With a codec, DDP's own hook halves its gradients.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=True)
    trained = model
    if meeting:
        distributed.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=side, world_size=SIDES
        )
        trained = DistributedDataParallel(model, gradient_as_bucket_view=True)
        if codec:
            trained.register_comm_hook(None, HOOKS[codec])
    watch = Stopwatch(plan.warm, plan.timed)
    train(trained, optimizer, watch.watch(batches_of(side, data, plan)))
    if meeting:
        # Who closes its sockets first can leave the other waiting in its last reduction.
        distributed.barrier()
        distributed.destroy_process_group()
    return watch


def run_paceline(
    session: paceline.Session,
    model: nn.Module,
    data: Batch,
    plan: Plan,
    kind: str = "paceline",
) -> Stopwatch:
    """A side as a trainer of a job."""
    optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=LR))
    count = link_bytes if kind == "link" else dict
    watch = Stopwatch(plan.warm, plan.timed, count)
    batches = session.batches(
        data, plan.batch, shuffle=False, task_size=plan.task * plan.batch
    )
    train(model, optimizer, watch.watch(batches))
    return watch


def link_bytes() -> dict[str, int]:
    """What went over this end of the link so far, of all trainers there."""
    traffic = read_traffic(DEVICE)
    return {"up_bytes": traffic.sent, "down_bytes": traffic.received}


def held_out_loss(model: nn.Module, data: Batch) -> float:
    """Mean loss over records that no step has seen."""
    with torch.no_grad():
        return cross_entropy(model(data[0]), data[1]).item()


def main() -> None:
    """Be one side of a candidate, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--side", type=int, default=-1, help="0 or 1; a trainer knows it")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--plan", required=True, help="a Plan as JSON")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--codec", default="", help="of DDP; ours is in its pace")
    flags = parser.parse_args()
    plan = Plan(**json.loads(flags.plan))
    torch.set_num_threads(1)
    with np.load(flags.data) as arrays:
        features = torch.from_numpy(arrays["features"])
        labels = torch.from_numpy(arrays["labels"])
    stop = SIDES * (plan.warm + plan.timed) * plan.batch
    data, held_out = (features[:stop], labels[:stop]), (features[stop:], labels[stop:])
    side, model = flags.side, make_model(flags.width)
    if flags.kind in OURS:
        side = int(os.environ["PACELINE_ROLE"].rpartition("-")[2])
        watch = run_paceline(paceline.connect(), model, data, plan, flags.kind)
    else:
        meeting = str(flags.out / "meeting") if flags.kind == "ddp" else ""
        watch = run_alone(side, model, data, plan, meeting, flags.codec)
    values = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    np.save(flags.out / f"parameters-{side}.npy", values.numpy())
    result = {
        "seconds": watch.seconds,
        "loss": held_out_loss(model, held_out),
        **watch.counted,
    }
    (flags.out / f"result-{side}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
