"""The job that is hurt in `recovery`: short steps, and a line for each that is over.

``<folder>/steps-<trainer>-<pid>`` gets the moment (seconds since 1970) at which each step
was over. The loop ends for all when ``<folder>/stop`` is there.
"""

import argparse
import os
import time
from pathlib import Path

import torch
from torch import nn

import paceline

RECORDS = 6_400
BATCH = 16
TASK_BATCHES = 4
EPOCHS = 10_000  # more than anybody waits for
TOUCHED_AT_ONCE = 16_384
COMPUTING_S = 0.02  # of a step


def main() -> None:
    """Train until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=RECORDS, help="of the table")
    parser.add_argument("--dim", type=int, default=4)
    flags = parser.parse_args()

    session = paceline.connect()
    rows = paceline.Embedding("rows", flags.dim, optimizer=paceline.Adagrad(lr=0.01))
    model = nn.Sequential(rows, nn.Linear(flags.dim, 1))
    optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=0.01))
    for ids in torch.arange(flags.rows).split(TOUCHED_AT_ONCE):
        rows(ids)  # made with their state, so that the first cut holds all of them

    stop = flags.folder / "stop"
    name = f"steps-{os.environ['PACELINE_ROLE']}-{os.getpid()}"
    data = torch.arange(RECORDS) % flags.rows
    task_size = TASK_BATCHES * BATCH
    with (flags.folder / name).open("w", buffering=1) as steps:
        for ids in session.batches(data, BATCH, epochs=EPOCHS, task_size=task_size):
            time.sleep(COMPUTING_S)
            model(ids).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            steps.write(f"{time.time():.6f}\n")
            if stop.exists():
                session.stop("measured")


if __name__ == "__main__":
    main()
