"""A counting job that rotates: every cell adds 1 for each of its records, and for itself.

A block's rows are changed in place, and go home with the cell; sums of the data part and a
count of (block, part) are pushed to tables beside. Rounds are checked one by one, by a row
of visits for each. A number that every attempt at a cell draws anew goes into the rows and
into a table beside: they agree only if a cell has its effect on both, or on neither.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np

import paceline

ROWS = 64


def main() -> None:
    """Count in all trainers, check in one."""
    flags = parse_flags()
    draw = np.random.default_rng(0)
    rows, users = draw.integers(0, ROWS, flags.records), draw.integers(0, 90, flags.records)
    cells = flags.parts * flags.blocks
    session = paceline.connect()
    counts = session.table("counts", (ROWS, 2), "int64", blocks=flags.blocks)
    visits = session.table("visits", (flags.rounds, cells), "int32")
    by_user = session.table("users", (None,), "int64")
    drawn = session.table("drawn", (flags.blocks,), "int64")
    anew = np.random.default_rng()
    for cell in counts.rotate(
        (rows, users),
        rows,
        group=users,
        parts=flags.parts,
        batch_size=flags.batch_size,
        step_s=flags.step_s,
        epochs=flags.rounds,
        slices=flags.slices,
    ):
        time.sleep(flags.sleep_ms / 1000)
        taken = [np.empty(0, np.int64), *cell.batches()]
        records = np.concatenate(taken)
        np.add.at(cell.rows[:, 0], rows[records] - cell.ids[0], 1)
        number = int(anew.integers(1 << 30))
        cell.rows[:, 1] += number
        drawn.push([cell.block], [number])
        by_user.push(users[records], 1)
        visit = np.zeros(cells, np.int32)
        visit[cell.part * flags.blocks + cell.block] = len(records)
        visits.push([session.epoch], visit[None])

    if session.once("check"):
        histogram = np.bincount(rows, minlength=ROWS) * flags.rounds
        known = Counter(users.tolist())
        names = np.array(sorted(known))
        found = visits.pull()
        ends = [(block + 1) * ROWS // flags.blocks for block in range(flags.blocks)]
        block_of = np.searchsorted(ends, np.arange(ROWS), side="right")
        wrong = {
            "counts": int((counts.pull()[:, 0] != histogram).sum()),
            "halves": int((counts.pull()[:, 1] != drawn.pull()[block_of]).sum()),
            "users": int(
                (by_user.pull(names) != [flags.rounds * known[n] for n in names]).sum()
            ),
            "rounds": int((found.sum(1) != flags.records).sum()),
            "cells": int((found != found[0]).sum()),
        }
        verdict = {"exact": not any(wrong.values()), "wrong": wrong}
        flags.out.write_text(json.dumps(verdict))


def parse_flags() -> argparse.Namespace:
    """What is counted, and how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--slices", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--step-s", type=float, default=None)
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="per cell")
    parser.add_argument("--out", type=Path, required=True, help="file for the verdict")
    return parser.parse_args()


if __name__ == "__main__":
    main()
