"""scikit-learn's LogisticRegression, in an environment of its own: one run.

Its L-BFGS cannot be watched, so it is fitted for a number of iterations, anew for every
number: the fewest that come to the loss are found, and a fit of so many is timed. Penalty
and loss are ours: C = 1 / (ridge x records), and the bias is a feature like the others.

Waits: for nobody.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.tables.factorisation.peers import fewest_epochs

MOST_ITERATIONS = 2000

Array = Any  # NumPy's, in an environment of its own


def fit(data: dict[str, Array], ridge: float, iterations: int) -> LogisticRegression:
    """So many iterations of L-BFGS, whatever the gradient is by then."""
    model = LogisticRegression(
        C=1 / (ridge * len(data["labels"])),
        fit_intercept=False,
        solver="lbfgs",
        tol=0,
        max_iter=iterations,
    )
    return model.fit(data["features"], data["labels"])


def loss_of(model: LogisticRegression, data: dict[str, Array], ridge: float) -> float:
    """The mean loss with the penalty."""
    shares, labels = model.predict_log_proba(data["features"]), data["labels"]
    mean = -float(shares[np.arange(len(labels)), labels].mean())
    return mean + ridge / 2 * float(np.square(model.coef_).sum())


def main() -> None:
    """Find the number of iterations, fit once more, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role")
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--ridge", type=float, required=True)
    parser.add_argument("--loss", type=float, required=True)
    parser.add_argument("--iterations", type=int, default=0, help="0: look for them")
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    with np.load(flags.records, allow_pickle=False) as arrays:
        data = dict(arrays)
    warnings.simplefilter("ignore", ConvergenceWarning)
    fit(data, flags.ridge, 1)  # warm
    iterations = flags.iterations or fewest_epochs(
        lambda number: (
            loss_of(fit(data, flags.ridge, number), data, flags.ridge) <= flags.loss
        ),
        MOST_ITERATIONS,
    )
    began_s, used_s = time.perf_counter(), time.process_time()
    model = fit(data, flags.ridge, iterations)
    seconds, used_s = time.perf_counter() - began_s, time.process_time() - used_s
    np.save(flags.out.with_suffix(".npy"), model.coef_.T)
    found = {"seconds": seconds, "used_s": used_s, "iterations": iterations}
    flags.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
