"""The floor of the k-means benchmark: the example's plain loop, its kernel alone.

Waits: for the data set to be fetched, once.
"""

import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "clusters"))

import images
import lloyd

Centroids = NDArray[np.float64]


@cache
def load_points(data: str, k: int, seed: int) -> tuple[NDArray[np.uint8], Centroids]:
    """The points of a set, and everyone's start."""
    pixels = images.load(data)[0].pixels
    return pixels, lloyd.choose_start(pixels, k, seed)


def inertia_of(data: str, centroids: Centroids) -> float:
    """Of all points and these centroids, in float64."""
    pixels = images.load(data)[0].pixels
    return lloyd.inertia(lloyd.assign(pixels, centroids), centroids)


def measure_floor(
    data: str, k: int, seed: int, iterations: int
) -> tuple[float, float, float]:
    """Seconds and processor time of an iteration of the plain loop, and the inertia."""
    pixels, start = load_points(data, k, seed)
    lloyd.assign(pixels[:1], start)
    began_s, used_s = time.perf_counter(), time.process_time()
    fit = lloyd.plain(pixels, start, iterations)
    seconds = (time.perf_counter() - began_s) / iterations
    used_s = (time.process_time() - used_s) / iterations
    return seconds, used_s, inertia_of(data, fit.centroids)
