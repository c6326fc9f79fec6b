"""A rotation whose cells take a while each: how long it waits for blocks.

What a cell computes is a sleep, so that trainers need no cores; what it changes is a block
of ``--kib``, which is fetched and brought home as any other. Each record counts, and the
sum is checked.

Waits: as a rotation does, and asleep.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import paceline


def main() -> None:
    """Go round; every trainer says how long it has waited."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--slices", type=int, required=True)
    parser.add_argument("--kib", type=int, required=True)
    parser.add_argument("--sleep-ms", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()

    blocks = 2 * flags.parts
    session = paceline.connect()
    table = session.table("rows", (blocks, flags.kib * 128), "float64", blocks=blocks)
    waits = session.table("waits", (flags.parts, 4), "float64")
    visits = np.arange(flags.parts * blocks)
    waited_s, cells, began_s = 0.0, 0, 0.0
    for cell in table.rotate(
        visits,
        by=visits % blocks,
        group=visits // blocks,
        parts=flags.parts,
        epochs=flags.rounds,
        slices=flags.slices,
    ):
        if session.epoch == 0:  # the first round is for warming up
            began_s = time.monotonic()
        else:
            waited_s, cells = waited_s + cell.waited_s, cells + 1
        cell.rows += 1
        time.sleep(flags.sleep_ms / 1000)
    total_s = time.monotonic() - began_s
    waits.push([cell.part], [[waited_s, total_s, cells, 1]])  # one data part a trainer
    if session.once("told"):
        found = waits.pull()
        while found[:, 3].sum() < flags.parts:
            time.sleep(0.05)
            found = waits.pull()
        is_exact = bool((table.pull() == flags.rounds * flags.parts).all())
        told = {"waits": found.tolist(), "exact": is_exact}
        flags.out.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
