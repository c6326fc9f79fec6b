"""How long a push may have to wait at a slot while a cut is taken, against a whole copy.

``python benchmarks/snapshot_pause.py [rows] [dim]``: one table with Adagrad in one slot.
First a copy of the whole slot, as one action of its queue; then a snapshot, pages copied
eight at a time with a push of 512 rows between any two. The bytes are compared first.
"""

import sys
import time

import numpy as np

from paceline.config import Adagrad, Uniform
from paceline.messages.shared import TableSpec
from paceline.params.rows.table import RowTable
from paceline.server.standing import PAGES_AT_ONCE

BATCH = 512


def main(rows: int, dim: int) -> None:
    """Print both pauses and the bytes that they are about."""
    table = RowTable(TableSpec("user", dim, Adagrad(), Uniform(0.1)), seed=1)
    table.gather(np.arange(rows), create=True)
    random = np.random.default_rng(1)
    ids = [np.unique(random.integers(0, rows, BATCH)) for _ in range(64)]
    gradients = [np.ones((len(one), dim), np.float32) for one in ids]
    moment, copy_s = _timed(table.export)
    snapshot, pin_s = _timed(table.snapshot)
    copies_s, pushes_s, is_done = [pin_s], [], False
    while not is_done:
        number = len(pushes_s) % len(ids)
        _, push_s = _timed(lambda n=number: table.apply(ids[n], gradients[n]))
        is_done, page_s = _timed(lambda: snapshot.copy_some(PAGES_AT_ONCE))
        pushes_s.append(push_s)
        copies_s.append(page_s)
    assert all(
        np.array_equal(moment[name], array) for name, array in snapshot.arrays().items()
    )
    table.release()
    calm_s = [
        _timed(lambda n=n: table.apply(ids[n], gradients[n]))[1] for n in range(len(ids))
    ]
    size = sum(array.nbytes for array in moment.values())
    print(f"{rows:,} rows of {dim}: {size / 2**20:.0f} MiB with optimizer state")
    print(f"whole copy in one action        {1000 * copy_s:9.2f} ms")
    print(f"pinned                          {1000 * pin_s:9.2f} ms")
    print(f"longest action for the snapshot {1000 * max(copies_s):9.2f} ms")
    print(f"median of them                  {1000 * float(np.median(copies_s)):9.2f} ms")
    print(f"longest push, copying first     {1000 * max(pushes_s):9.2f} ms")
    print(f"median push afterwards          {1000 * float(np.median(calm_s)):9.2f} ms")
    print(f"pause shorter by                {copy_s / max(copies_s + pushes_s):9.1f} x")


def _timed(what):  # noqa: ANN001, ANN202  (anything that can be called)
    begin = time.perf_counter()
    result = what()
    return result, time.perf_counter() - begin


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:3]]
    main(*(arguments + [1_000_000, 16][len(arguments) :]))
