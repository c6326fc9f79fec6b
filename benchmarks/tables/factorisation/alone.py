"""The factorisation example's loops alone: no server, no lease, nothing that travels.

::

    compiling    the loops, once, into an empty cache; a job reads them from there
    floor        the loop over ratings, nothing else, for as many epochs as the target takes
    plain        with what an epoch of one process costs beside it: another order of ratings
"""

import sys
import time
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.tables.factorisation.job import SEED, Told, read_split, warm

# On the path since the import above.
import descent  # isort: skip
from plain import Settings, begun, test_rmse  # isort: skip


class Alone(msgspec.Struct, frozen=True):
    """Seconds; and the epochs that the target took."""

    compiling_s: float
    floor_s: float
    plain_s: float
    epochs: int


def measure(told: Told) -> Alone:
    """Compile, then learn until the target is reached."""
    split = read_split(Path(told.data))
    settings = Settings(*told.settings)
    settings = settings._replace(k=int(settings.k))
    began_s = time.perf_counter()
    warm(split, settings)
    compiling_s = time.perf_counter() - began_s
    p, q = begun(split, settings, SEED)
    draw = np.random.default_rng([SEED, 1])
    mean, penalty = np.float32(split.mean), np.float32(settings.penalty)
    floor_s = plain_s = 0.0
    for epoch in range(told.epochs):
        rate = np.float32(settings.rate * settings.decay**epoch)
        began_s = time.perf_counter()
        train = split.train.take(draw.permutation(len(split.train.values)))
        stepped_s = time.perf_counter()
        descent.step_along(p, q, *train, mean, rate, penalty)
        ended_s = time.perf_counter()
        floor_s += ended_s - stepped_s
        plain_s += ended_s - began_s
        if test_rmse(split, p, q) <= told.target:
            return Alone(compiling_s, floor_s, plain_s, epoch + 1)
    raise RuntimeError(f"the target {told.target} is not reached in {told.epochs} epochs")


if __name__ == "__main__":
    TOLD = msgspec.json.decode(sys.argv[1], type=Told)
    Path(TOLD.out).write_bytes(msgspec.json.encode(measure(TOLD)))
