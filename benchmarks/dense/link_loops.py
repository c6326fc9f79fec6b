"""A trainer of `benchmarks link`: a dense model in `sync`, over a link that it looks at.

::

    python benchmarks/link_loops.py --data data.npz --out folder --width 256 --plan ...

As `dense_loops`, of which it is the trainer with another width; it also writes how many
bytes went over its end of the link in the timed steps, of all trainers there.
"""

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

import paceline
from benchmarks.dense.loops import LR, SIDES, Batch, Plan, held_out_loss, make_model, train
from benchmarks.dense.network import FAR_DEVICE, read_traffic


class LinkWatch:
    """Times the steps behind the warm ones, and counts what they send."""

    def __init__(self, plan: Plan) -> None:
        self.seconds = 0.0
        self.up_bytes = self.down_bytes = 0
        self._plan = plan

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches; time and bytes are counted until the last one's step is over."""
        began_s, before = 0.0, read_traffic(FAR_DEVICE)
        for number, batch in enumerate(batches):
            if number == self._plan.warm:
                began_s, before = time.perf_counter(), read_traffic(FAR_DEVICE)
            yield batch
            if number == self._plan.warm + self._plan.timed - 1:
                self.seconds = time.perf_counter() - began_s
                after = read_traffic(FAR_DEVICE)
                self.up_bytes = after.sent - before.sent
                self.down_bytes = after.received - before.received


def main() -> None:
    """Be a trainer of the job that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--plan", required=True, help="a Plan as JSON")
    flags = parser.parse_args()
    plan = Plan(**json.loads(flags.plan))
    torch.set_num_threads(1)
    with np.load(flags.data) as arrays:
        features = torch.from_numpy(arrays["features"])
        labels = torch.from_numpy(arrays["labels"])
    stop = SIDES * (plan.warm + plan.timed) * plan.batch
    data, held_out = (features[:stop], labels[:stop]), (features[stop:], labels[stop:])
    session, model = paceline.connect(), make_model(flags.width)
    optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=LR))
    watch = LinkWatch(plan)
    batches = session.batches(
        data, plan.batch, shuffle=False, task_size=plan.task * plan.batch
    )
    train(model, optimizer, watch.watch(batches))
    side = os.environ["PACELINE_ROLE"].rpartition("-")[2]
    result = {
        "seconds": watch.seconds,
        "up_bytes": watch.up_bytes,
        "down_bytes": watch.down_bytes,
        "loss": held_out_loss(model, held_out),
    }
    (flags.out / f"result-{side}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
