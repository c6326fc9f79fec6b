"""One algorithm in every model of computation: sums of whole numbers, by id.

Every record adds its value to the row of its id; a second column counts. Whichever way
trainers work together, in the end the table is what NumPy comes to: `expected`.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

import paceline
from paceline import Async, Sync

IDS, BATCH, TASK, EPOCHS = 37, 16, 48, 3
sleep_s = 0.0  # of a batch, so that there is time to be killed
Numbers = NDArray[np.int64]
How = Literal["allreduce", "regroup+allgather"]


def records(count: int) -> tuple[Numbers, Numbers]:
    """Ids and values, both ``(count,)``."""
    draw = np.random.default_rng(11)
    return draw.integers(0, IDS, count), draw.integers(-1000, 1000, count)


def statistics(ids: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """Rows that change, ``(n,)``, each once, and what is added to them, ``(n, 2)``."""
    rows, place = np.unique(ids, return_inverse=True)
    sums = np.zeros((len(rows), 2), np.int64)
    np.add.at(sums, place, np.stack([values, np.ones_like(values)], 1))
    return rows, sums


def expected(count: int) -> Numbers:
    """All rows after all epochs, ``(IDS, 2)``."""
    rows, sums = statistics(*records(count))
    table = np.zeros((IDS, 2), np.int64)
    table[rows] = sums * EPOCHS
    return table


def batches(session: paceline.Session, count: int) -> Any:
    """Ids and values of this trainer's share of all epochs."""
    data = tuple(torch.from_numpy(column) for column in records(count))
    for ids, values in session.batches(data, BATCH, epochs=EPOCHS, task_size=TASK):
        time.sleep(sleep_s)
        yield ids.numpy(), values.numpy()


def no_sync(session: paceline.Session, count: int) -> Numbers:
    """D: deltas add up at the servers; nobody waits for anybody."""
    table = session.table("sums", (IDS, 2), "int64", pace=Async())
    for ids, values in batches(session, count):
        table.push(*statistics(ids, values))
    return table.pull()


def push_pull(session: paceline.Session, count: int) -> Numbers:
    """C by push and pull: deltas of all trainers with work become one update."""
    table = session.table("sums", (IDS, 2), "int64", pace=Sync(reduce="sum"))
    for ids, values in batches(session, count):
        table.push(*statistics(ids, values))
    return table.pull()


def locking(session: paceline.Session, count: int) -> Numbers:
    """A: rows are read and written by one trainer at a time, always the latest."""
    table = session.table("sums", (IDS, 2), "int64")
    for ids, values in batches(session, count):
        rows, sums = statistics(ids, values)
        with table.lock(rows) as locked:
            locked.values += sums
    return table.pull()


class Totals:
    """What this trainer keeps of the results, as all others do."""

    def __init__(self) -> None:
        self.rows = np.zeros((IDS, 2), np.int64)

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = np.array(state["rows"])


def allreduce(session: paceline.Session, count: int, how: How = "allreduce") -> Numbers:
    """C by values between trainers: every trainer has the sum, and keeps it itself."""
    table = session.table("sums", (IDS, 2), "int64", pace=Sync(reduce="sum"))
    totals = Totals()
    session.track(totals=totals)
    for ids, values in batches(session, count):
        mine = np.zeros((IDS, 2), np.int64)
        rows, sums = statistics(ids, values)
        mine[rows] = sums
        totals.rows += table.allreduce(mine, how=how)
    return totals.rows


def rotation(session: paceline.Session, count: int) -> Numbers:
    """B: each block of rows is with one trainer at a time."""
    table = session.table("sums", (IDS, 2), "int64", blocks=4)
    ids, values = data = records(count)
    for cell in table.rotate(data, by=ids, batch_size=BATCH, epochs=EPOCHS):
        for positions in cell.batches():
            time.sleep(sleep_s)
            rows, sums = statistics(ids[positions], values[positions])
            cell.rows[rows - cell.ids[0]] += sums
    return table.pull()


MODELS: dict[str, Callable[[paceline.Session, int], Numbers]] = {
    "allreduce": allreduce,
    "regroup-allgather": partial(allreduce, how="regroup+allgather"),
    "locking": locking,
    "no-sync": no_sync,
    "push-pull": push_pull,
    "rotation": rotation,
}


def main() -> None:
    """Add up; then one trainer says whether all is as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--records", type=int, default=480)
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per batch")
    flags = parser.parse_args()
    global sleep_s
    sleep_s = flags.sleep_ms / 1000
    session = paceline.connect()
    found = MODELS[flags.model](session, flags.records)
    if session.once("check"):
        wanted = expected(flags.records)
        verdict = {
            "exact": bool((found == wanted).all()),
            "wrong": int((found != wanted).sum()),
        }
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()
