"""Other factorisers on the same ratings, until the same held-out error: one run of one.

::

    libmf      LIBMF (C++), as its authors' Python binding calls it: steps scaled by row
    surprise   SVD of scikit-surprise (Cython): the rule, rate and penalty of ours

Neither can be watched while it learns, so it is fitted for a number of epochs, anew for
every number: the fewest that reach the target are found, and a fit of so many is timed.
Data and results are files; see `benchmarks factorisation`.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MOST_EPOCHS = 80

Array = Any  # NumPy's, in an environment of its own


class Fitted(NamedTuple):
    """A fit: its seconds, and what it says of the ratings that were held out."""

    seconds: float
    rmse: float


Fit = Callable[[dict[str, Array], argparse.Namespace, int], Fitted]


def fit_libmf(data: dict[str, Array], flags: argparse.Namespace, epochs: int) -> Fitted:
    """LIBMF on ratings less their mean; rows that it has not seen are zeros."""
    from libmf import mf  # noqa: PLC0415  (each peer needs its own library alone)

    mean = data["values"].mean()
    columns = (data["users"], data["items"], data["values"] - mean)
    model = mf.MF(
        fun=mf.P_L2_MFR,
        k=flags.k,
        nr_threads=flags.threads,
        nr_bins=20,
        nr_iters=epochs,
        lambda_p1=0.0,
        lambda_q1=0.0,
        lambda_p2=flags.penalty,
        lambda_q2=flags.penalty,
        eta=flags.rate,
        quiet=True,
    )
    told = np.stack(columns, axis=1).astype(np.float32)
    began_s = time.perf_counter()
    model.fit(told)
    seconds = time.perf_counter() - began_s
    p, q = (
        _padded(np.nan_to_num(rows), data[column])
        for rows, column in (
            (model.p_factors(), "test_users"),
            (model.q_factors(), "test_items"),
        )
    )
    said = mean + np.einsum("nk,nk->n", p[data["test_users"]], q[data["test_items"]])
    return Fitted(seconds, _rmse(data, said))


def fit_surprise(data: dict[str, Array], flags: argparse.Namespace, epochs: int) -> Fitted:
    """SVD: biases and factors by plain steps along the ratings, user by user."""
    from surprise import SVD, Trainset  # noqa: PLC0415  (as above)

    users, items = dict[int, Any](), dict[int, Any]()
    for user, item, value in zip(
        *(data[name].tolist() for name in ("users", "items", "values")), strict=True
    ):
        users.setdefault(user, []).append((item, value))
        items.setdefault(item, []).append((user, value))
    counts = [
        int(max(data[n].max(), data[f"test_{n}"].max())) + 1 for n in ("users", "items")
    ]
    scale = (data["values"].min(), data["values"].max())
    learned = Trainset(users, items, *counts, len(data["values"]), scale, {}, {})
    model = SVD(
        n_factors=flags.k,
        n_epochs=epochs,
        init_std_dev=0.1,
        lr_all=flags.rate,
        reg_all=flags.penalty,
        random_state=0,
    )
    began_s = time.perf_counter()
    model.fit(learned)
    seconds = time.perf_counter() - began_s
    u, i = data["test_users"], data["test_items"]
    product = np.einsum("nk,nk->n", model.pu[u], model.qi[i])
    said = learned.global_mean + model.bu[u] + model.bi[i] + product
    return Fitted(seconds, _rmse(data, said))


PEERS: dict[str, Fit] = {"libmf": fit_libmf, "surprise": fit_surprise}


def fewest_epochs(reaches: Callable[[int], bool], most: int = MOST_EPOCHS) -> int:
    """The least number that reaches, if more never do worse; by doubling and halving.

    Raises:
        RuntimeError: not even ``most`` reach.
    """
    low, high = 0, 1
    while not reaches(high):
        if high >= most:
            raise RuntimeError(f"the target is not reached in {most} epochs")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def main() -> None:
    """Find the number of epochs, fit once more, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", type=float, required=True)
    for name in ("k", "threads"):
        parser.add_argument(f"--{name}", type=int, default=0)
    for name in ("rate", "penalty"):
        parser.add_argument(f"--{name}", type=float, required=True)
    flags = parser.parse_args()
    with np.load(flags.data, allow_pickle=False) as arrays:
        data = dict(arrays)
    fit = PEERS[flags.peer]
    epochs = fewest_epochs(lambda number: fit(data, flags, number).rmse <= flags.target)
    fitted = fit(data, flags, epochs)
    flags.out.write_text(json.dumps({"epochs": epochs, **fitted._asdict()}))


def _padded(rows: Array, wanted: Array) -> Array:
    """Rows up to the last one that is asked for; those never learned are zeros."""
    missing = max(0, int(wanted.max()) + 1 - len(rows))
    return np.pad(rows, ((0, missing), (0, 0)))


def _rmse(data: dict[str, Array], said: Array) -> float:
    return float(np.sqrt(np.mean((data["test_values"] - said) ** 2)))


if __name__ == "__main__":
    main()
