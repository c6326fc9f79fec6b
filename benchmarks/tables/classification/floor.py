"""The floor of the classification benchmark: the example's plain loop, its gradient alone.

It poses the problem, too, that everybody solves, and says what loss is good enough.
`classification` starts it as a process of its own, with one thread.

Waits: for the data set to be fetched, once.
"""

import argparse
import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "classification"))

import records
import softmax

Weights = NDArray[np.float64]


class Aim(NamedTuple):
    """When everybody is done.

    Args:
        loss: with the penalty, that is low enough.
        iterations: of accelerated gradient to it, the one of zero weights not counted.
    """

    loss: float
    iterations: int


class Floor(NamedTuple):
    """The plain loop: seconds and processor time until it is done, and its loss then."""

    seconds: float
    used_s: float
    loss: float


@cache
def load_records(data: str, seed: int) -> records.Records:
    """What everybody trains on."""
    return records.load(data, seed)[0]


@cache
def aim(data: str, seed: int, ridge: float, iterations: int) -> Aim:
    """The loss that so many iterations come to, and how many it takes to be there first."""
    losses = softmax.plain(*load_records(data, seed), ridge, iterations + 1).losses
    loss = losses[iterations]
    return Aim(loss, next(n for n, found in enumerate(losses) if found <= loss))


def loss_of(data: str, seed: int, ridge: float, weights: Weights) -> float:
    """The mean loss with the penalty, of weights ``(features, classes)``, in float64."""
    sums = softmax.differentiate(*load_records(data, seed), weights)
    return float(sums[-2] / sums[-1] + ridge / 2 * np.square(weights).sum())


def measure_floor(data: str, seed: int, ridge: float, iterations: int) -> Floor:
    """Run the plain loop for so many iterations behind the one of zero weights."""
    chosen = load_records(data, seed)
    descent = softmax.Descent(softmax.pose(*chosen, ridge))
    began_s, used_s = time.perf_counter(), time.process_time()
    while descent.num_iterations <= iterations:
        descent.advance(softmax.differentiate(*chosen, descent.point))
    seconds, used_s = time.perf_counter() - began_s, time.process_time() - used_s
    return Floor(seconds, used_s, descent.losses[-1])


def main() -> None:
    """Run the plain loop, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--ridge", type=float, required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    measured = measure_floor(flags.data, flags.seed, flags.ridge, flags.iterations)
    flags.out.write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
