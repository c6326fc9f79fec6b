"""One process of the allreduce benchmark: the same call again and again.

::

    python benchmarks/tables/allreduce_loops.py ours --how push+pull --kib 64 ...

    ours     a trainer of the job that the environment names: `Table.allreduce`
    gloo     one of several processes: `torch.distributed.all_reduce`, a sum
    floor    a copy of the same bytes, in as many processes

Every call reduces values that another call of another side has not: what came of all is
summed up, so that the sides can be compared.

Waits: for the other sides.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

import paceline

ROW = 1024  # numbers
Values = np.ndarray[Any, np.dtype[np.float32]]


def values_of(side: int, kib: int) -> Values:
    """What a side begins with: float32 (rows, ROW)."""
    draw = np.random.default_rng(side)
    return draw.standard_normal((kib // 4, ROW)).astype(np.float32)


class Watch:
    """Seconds of the calls behind the warm ones."""

    def __init__(self, warm: int, calls: int) -> None:
        self._warm, self._calls = warm, calls
        self.seconds = self.used_s = 0.0

    def count(self) -> Iterator[int]:
        """Numbers of calls; the time runs from behind the last warm one to the end."""
        began_s = used_s = 0.0
        for number in range(self._warm + self._calls):
            if number == self._warm:
                began_s, used_s = time.perf_counter(), time.process_time()
            yield number
        self.seconds = time.perf_counter() - began_s
        self.used_s = time.process_time() - used_s


def run_ours(flags: argparse.Namespace, side: int, watch: Watch) -> Values:
    """A trainer: one task, and one batch a call."""
    session = paceline.connect()
    pace = paceline.Sync(reduce="sum")
    own, calls = values_of(side, flags.kib), flags.warm + flags.calls
    table = session.table("values", own.shape, "float32", pace=pace)
    total = np.zeros_like(own)
    batches = session.batches(
        torch.arange(flags.sides * calls), 1, shuffle=False, task_size=calls
    )
    for number, _ in zip(watch.count(), batches, strict=False):
        own[0, 0] = number
        total[:] = table.allreduce(own, how=flags.how)
    return total


def run_gloo(flags: argparse.Namespace, side: int, watch: Watch) -> Values:
    """A process of a Gloo group; the result is in memory of its own, as ours is."""
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{flags.out / 'meeting'}",
        rank=side,
        world_size=flags.sides,
    )
    own = values_of(side, flags.kib)
    total = torch.empty(own.shape)
    for number in watch.count():
        own[0, 0] = number
        total.copy_(torch.from_numpy(own))
        distributed.all_reduce(total)
    distributed.barrier()
    distributed.destroy_process_group()
    return total.numpy()


def run_floor(flags: argparse.Namespace, side: int, watch: Watch) -> Values:
    """A copy of the values, alone."""
    own = values_of(side, flags.kib)
    total = np.empty_like(own)
    for number in watch.count():
        own[0, 0] = number
        np.copyto(total, own)
    return total


def main() -> None:
    """Be one side, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["ours", "gloo", "floor"])
    parser.add_argument("--how", default="auto")
    parser.add_argument("--kib", type=int, default=4)
    parser.add_argument("--sides", type=int, default=2)
    parser.add_argument("--side", type=int, default=-1, help="a trainer knows it")
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    side, watch = flags.side, Watch(flags.warm, flags.calls)
    if side < 0:
        side = int(os.environ["PACELINE_ROLE"].rpartition("-")[2])
    run = {"ours": run_ours, "gloo": run_gloo, "floor": run_floor}[flags.kind]
    total = run(flags, side, watch)
    np.save(flags.out / f"total-{side}.npy", total)
    told = {"seconds": watch.seconds / flags.calls, "used_s": watch.used_s / flags.calls}
    (flags.out / f"result-{side}.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
