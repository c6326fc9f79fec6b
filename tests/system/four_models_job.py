"""One algorithm in every model of computation: sums of whole numbers, by id.

Every record adds its value to the row of its id; a second column counts. Whichever way
trainers work together, in the end the table is what NumPy comes to: `expected`.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import paceline
from paceline import Async, Sync

IDS, BATCH, TASK, EPOCHS = 37, 16, 48, 3
Numbers = NDArray[np.int64]


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


def rotation(session: paceline.Session, count: int) -> Numbers:
    """B: each block of rows is with one trainer at a time."""
    table = session.table("sums", (IDS, 2), "int64", blocks=4)
    data = records(count)
    for cell in table.rotate(data, by=data[0], epochs=EPOCHS):
        ids, values = cell.data
        rows, sums = statistics(ids.numpy(), values.numpy())
        cell.rows[rows - cell.ids[0]] += sums
    return table.pull()


MODELS: dict[str, Callable[[paceline.Session, int], Numbers]] = {
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
    flags = parser.parse_args()
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
