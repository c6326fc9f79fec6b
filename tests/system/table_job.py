"""A counting job on tables alone: sums, least and greatest of what all trainers push.

Every record adds 1 to its row, in two pushes of a batch; each epoch's sum has a row of its
own, and in the next epoch every batch sees that it is whole.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import paceline
from paceline.config import parse_pace

IDS = 300


def main() -> None:
    """Count in all trainers, check in one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--task-size", type=int, default=160)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    parser.add_argument("--table-pace", default="async")
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()

    draw = np.random.default_rng(0)
    data = torch.from_numpy(draw.integers(0, IDS, flags.records))
    numbers = torch.arange(flags.records)
    session = paceline.connect()
    pace = parse_pace(flags.table_pace)
    counts = session.table("counts", (None,), "int64", pace=pace)
    dense = session.table(
        "dense", (IDS, 2), "float64", init=np.full((IDS, 2), 0.5), pace=pace
    )
    sums = session.table("sums", (None, 3), "int32", pace=pace)
    greatest = session.table("greatest", (IDS,), "int32", combine="max", pace=pace)
    least = session.table("least", (None,), "int64", combine="min", pace=pace)
    early = 0
    for ids, number in session.batches(
        (data, numbers), 16, epochs=flags.epochs, task_size=flags.task_size
    ):
        time.sleep(flags.sleep_ms / 1000)
        half = len(ids) // 2
        counts.push(ids[:half], 1)
        counts.push(ids[half:], 1)
        dense.push(ids, np.ones(2))
        if session.epoch:
            [before] = sums.pull([session.epoch - 1])
            early += before.tolist() != [flags.records, int(data.sum()), 0]
        sums.push([session.epoch], [[len(ids), int(ids.sum()), 0]])
        greatest.push(ids, number.int())
        least.push(ids, -number)

    if session.once("check"):
        histogram = torch.bincount(data, minlength=IDS).numpy() * flags.epochs
        last = np.full(IDS, -1)
        np.maximum.at(last, data.numpy(), numbers.numpy())
        ids = np.arange(IDS)
        greatest_wanted = np.where(last < 0, np.iinfo("int32").min, last)
        least_wanted = np.where(last < 0, np.iinfo("int64").max, -last)
        wrong = {
            "counts": int((counts.pull(ids) != histogram).sum()),
            "dense": int((dense.pull() != histogram[:, None] + 0.5).sum()),
            "sums": sum(
                sums.pull([epoch])[0].tolist() != [flags.records, int(data.sum()), 0]
                for epoch in range(flags.epochs)
            ),
            "greatest": int((greatest.pull() != greatest_wanted).sum()),
            "least": int((least.pull(ids) != least_wanted).sum()),
            "early": early,
        }
        verdict = {"exact": not any(wrong.values()), "wrong": wrong}
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
