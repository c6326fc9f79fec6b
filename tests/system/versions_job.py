"""A job whose batches replace a few rows that all want, if they are as they were read.

A batch adds 1 to each of its rows and to a row that all batches change: to the value that
it has read, again and again until nobody was faster.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import paceline

ROWS, BATCH = 6, 4


def main() -> None:
    """Count in all trainers, check in one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=120)
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()

    data = np.random.default_rng(0).integers(0, ROWS, flags.batches * BATCH)
    session = paceline.connect()
    table = session.table("t", (ROWS + 1, 2), "int64", combine="replace", pace="async")
    refused = session.table("refused", (1,), "int64", pace="async")
    for ids in session.batches(torch.from_numpy(data), BATCH, shuffle=False, task_size=20):
        here = np.append(np.unique(ids.numpy()), ROWS)
        while True:
            rows, versions = table.pull(here, versions=True)
            old = table.push(here, rows + 1, if_version=versions)
            if not len(old):
                break
            refused.push([0], [len(old)])

    if session.once("check"):
        wanted = np.zeros(ROWS + 1, np.int64)
        for batch in data.reshape(-1, BATCH):
            wanted[np.unique(batch)] += 1
        wanted[ROWS] = flags.batches
        found = table.pull()
        verdict = {
            "exact": bool((found == wanted[:, None]).all()),
            "wrong": (found - wanted[:, None]).tolist(),
            "refused": int(refused.pull()[0]),
        }
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
