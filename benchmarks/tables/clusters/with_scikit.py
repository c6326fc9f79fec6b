"""scikit-learn's Lloyd, in an environment of its own; `clusters` starts it.

Its time of an iteration is the difference between two fits, of one iteration and of all,
divided: what a fit does once (checks, the mean, the last labels) does not count. It gets
its points as float32, as it likes them best.

Waits: for nobody.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans


def fit_s(
    points: np.ndarray, start: np.ndarray, iterations: int
) -> tuple[float, float, KMeans]:
    """One fit, how long it took, and how much processor time."""
    model = KMeans(
        len(start),
        algorithm="lloyd",
        init=start,
        n_init=1,
        max_iter=iterations,
        tol=0,
        copy_x=False,
    )
    began_s, used_s = time.perf_counter(), time.process_time()
    model.fit(points)
    return time.perf_counter() - began_s, time.process_time() - used_s, model


def main() -> None:
    """Fit twice; write seconds of an iteration and the centroids."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role")
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    points = np.load(flags.points).astype(np.float32)
    start = np.load(flags.start).astype(np.float32)
    fit_s(points.copy(), start, 1)  # warm
    first_s, first_used_s, _ = fit_s(points.copy(), start, 1)
    all_s, used_s, model = fit_s(points.copy(), start, flags.iterations)
    np.save(flags.out.with_suffix(".npy"), model.cluster_centers_.astype(np.float64))
    spans = model.n_iter_ - 1
    found = {
        "seconds": (all_s - first_s) / spans,
        "used_s": (used_s - first_used_s) / spans,
    }
    flags.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
