"""A job whose batches change a few rows that all want, each under a lock.

A batch adds 1 to each of its rows, to a row that all batches change, and writes into a
third table what it did, all in one step: (row, value) -> how often, under which token. The
tables hold a history of themselves: every value of a row was written once, by somebody who
had read the value before, under a token greater than that of the value before.

Now and then a trainer is frozen in the middle of a block, for longer than its lease.
"""

import argparse
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import torch

import paceline

ROWS, BATCH, LEASE_S = 6, 4, 2.0
STRIDE = 1_000_000  # between the histories of two rows


def freeze(seconds: float) -> None:
    """Stop this process; a child of it wakes it."""
    command = f"sleep {seconds}; kill -CONT {os.getpid()}"
    subprocess.Popen(["/bin/sh", "-c", command])
    os.kill(os.getpid(), signal.SIGSTOP)


class Waits:
    """The longest waits for locks so far, kept where death does not matter."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / f"waits-{os.getpid()}.txt"
        self.number = self.lost = 0
        self.longest_s = 0.0

    def note(self, waited_s: float) -> None:
        self.number += 1
        self.longest_s = max(self.longest_s, waited_s)
        self.file.write_text(f"{self.number} {self.lost} {self.longest_s}")


def main() -> None:
    """Count in all trainers, check in one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=120)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--freezes", type=int, default=0, help="of each process")
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    flags = parser.parse_args()

    draw = np.random.default_rng(0)
    data = draw.integers(0, ROWS, flags.batches * BATCH)
    session = paceline.connect()
    counts = session.table("counts", (ROWS, 2), "int64", pace=paceline.Async())
    total = session.table("total", (1,), "int64", pace=paceline.Async())
    history = session.table("history", (None, 2), "int64", pace=paceline.Async())
    waits = Waits(flags.out.parent)
    freezes = [11 * (n + 1) for n in range(flags.freezes)]
    for ids in session.batches(
        torch.from_numpy(data), BATCH, epochs=flags.epochs, shuffle=False, task_size=20
    ):
        here = np.unique(ids.numpy())
        while True:
            began_s = time.monotonic()
            try:
                with (
                    counts.lock(here, lease_s=LEASE_S) as rows,
                    total.lock([0]) as all_of_it,
                ):
                    waits.note(time.monotonic() - began_s)
                    rows.values += 1
                    all_of_it.values += 1
                    said = here * STRIDE + rows.values[:, 0]
                    with history.lock(said) as told:
                        told.values[:, 0] += 1
                        told.values[:, 1] = rows.tokens
                        if waits.number in freezes:
                            freezes.remove(waits.number)
                            freeze(LEASE_S + 2.0)
                break
            except paceline.LockLost:
                waits.lost += 1

    if session.once("check"):
        wanted = np.zeros(ROWS, np.int64)
        for batch in data.reshape(-1, BATCH):
            wanted[np.unique(batch)] += flags.epochs
        found = counts.pull()
        wrong = {
            "counts": int((found != wanted[:, None]).sum()),
            "total": int(total.pull()[0]) - flags.batches * flags.epochs,
            **check_history(history, found),
        }
        write_verdict(flags.out, wrong)


def check_history(history: paceline.Table, found: np.ndarray) -> dict[str, int]:
    """How many values of ``found`` rows were not written once, or under a late token."""
    torn = backwards = 0
    for row in range(ROWS):
        values = np.arange(1, 1 + found[row, 0])
        told = history.pull(row * STRIDE + values)
        torn += int((told[:, 0] != 1).sum())
        backwards += int((np.diff(told[:, 1]) <= 0).sum())
    return {"written twice or not": torn, "tokens that did not grow": backwards}


def write_verdict(out: Path, wrong: dict[str, int]) -> None:
    """What is wrong, and how everybody has waited."""
    told_waits = [
        [float(part) for part in file.read_text().split()]
        for file in out.parent.glob("waits-*.txt")
    ]
    verdict = {
        "exact": not any(wrong.values()),
        "wrong": wrong,
        "locks": sum(one[0] for one in told_waits),
        "lost": sum(one[1] for one in told_waits),
        "longest wait": max(one[2] for one in told_waits),
    }
    out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
