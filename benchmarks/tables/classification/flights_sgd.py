"""scikit-learn's SGDClassifier on hashed flights, in an environment of its own: one fit.

Waits: for nobody.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.linear_model import SGDClassifier


def main() -> None:
    """Fit for so many epochs; write seconds, processor time and the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role")
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--alpha", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    with np.load(flags.records, allow_pickle=False) as arrays:
        ids, labels = arrays["ids"], arrays["labels"]
    starts = np.arange(0, ids.size + 1, ids.shape[1])
    ones = np.ones(ids.size, np.float64)
    records = scipy.sparse.csr_matrix((ones, ids.ravel(), starts), (len(ids), flags.width))
    model = SGDClassifier(
        loss="log_loss",
        alpha=flags.alpha,
        max_iter=flags.epochs,
        tol=None,
        random_state=0,
    )
    began_s, used_s = time.perf_counter(), time.process_time()
    model.fit(records, labels)
    seconds, used_s = time.perf_counter() - began_s, time.process_time() - used_s
    np.savez(flags.out.with_suffix(".npz"), weights=model.coef_[0], bias=model.intercept_)
    flags.out.write_text(json.dumps({"seconds": seconds, "used_s": used_s}))


if __name__ == "__main__":
    main()
