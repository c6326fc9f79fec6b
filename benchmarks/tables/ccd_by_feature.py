"""Coordinate descent row by row, as the example has it, beside CCD++, feature by feature.

::

    python -m benchmarks.tables.ccd_by_feature [--factors 16,64] [--data movielens]

Both are plain loops of one thread on the same ratings, objective and start. CCD++ (Yu,
Hsieh, Si and Dhillon, 2012, algorithm 2) keeps the residuals and fits one feature of all
users and items after the other, ``--inner`` times each. Shown are processor time,
objective and held-out error after some iterations.

Exit status: 0.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.record import circumstances, table, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "factorisation"))

import descent
import plain
from ratings import Split, generated, movielens

DATA = {
    "movielens": movielens,
    "generated": lambda: generated(300, 200, 60_000, factors=2, noise=0.5),
}
SHOWN = (2, 5, 10, 20)  # iterations

Float32s = NDArray[np.float32]
Int64s = NDArray[np.int64]
Pair = tuple[Float32s, Float32s]


@numba.njit
def fit_feature(
    starts: Int64s,
    others: Int64s,
    residuals: Float32s,
    u: Float32s,
    v: Float32s,
    penalty: float,
) -> None:
    """Each number of ``u`` at its best for residuals ``(n,)``, row by row, in place."""
    for m in range(len(u)):
        a, b = starts[m], starts[m + 1]
        if a == b:
            continue
        above, below = np.float32(0), np.float32(penalty * (b - a))
        for n in range(a, b):
            x = v[others[n]]
            above += residuals[n] * x
            below += x * x
        u[m] = above / below


@numba.njit
def shift(
    starts: Int64s,
    others: Int64s,
    residuals: Float32s,
    u: Float32s,
    v: Float32s,
    sign: float,
) -> None:
    """Add a feature's products to the residuals, or take them off, in place."""
    for m in range(len(u)):
        for n in range(starts[m], starts[m + 1]):
            residuals[n] += np.float32(sign) * u[m] * v[others[n]]


def by_feature(split: Split, settings: plain.Settings, inner: int) -> Iterator[Pair]:
    """CCD++; a bias is a feature whose other side is all ones, and stays so."""
    p, q = plain.begun(split, settings, 0)
    k, penalty = settings.k, settings.penalty
    users, items, values = split.train
    of_users = plain.by_row(users, items, values, split.num_users)
    of_items = plain.by_row(items, users, values, split.num_items)
    by_user, by_item = np.argsort(users, kind="stable"), np.argsort(items, kind="stable")
    place = np.empty_like(by_user)
    place[by_user] = np.arange(len(by_user))
    order = place[by_item]  # residuals lie user by user; so they lie item by item
    ours = [*p.T[:k].copy(), np.ones(len(p), np.float32), p[:, k].copy()]
    theirs = [*q.T[:k].copy(), q[:, k].copy(), np.ones(len(q), np.float32)]
    residuals = of_users.values - np.float32(split.mean)
    for u, v in zip(ours, theirs, strict=True):
        shift(of_users.starts, of_users.others, residuals, u, v, -1.0)
    while True:
        for t, (u, v) in enumerate(zip(ours, theirs, strict=True)):
            shift(of_users.starts, of_users.others, residuals, u, v, 1.0)
            turned = residuals[order]
            for _ in range(inner):
                if t != k:
                    fit_feature(of_users.starts, of_users.others, residuals, u, v, penalty)
                if t != k + 1:
                    fit_feature(of_items.starts, of_items.others, turned, v, u, penalty)
            shift(of_users.starts, of_users.others, residuals, u, v, -1.0)
        yield (
            np.stack([*ours[:k], ours[k + 1]], 1),
            np.stack([*theirs[:k], theirs[k]], 1),
        )


def by_row(split: Split, settings: plain.Settings) -> Iterator[Pair]:
    """The loop of `plain.ccd`."""
    p, q = plain.begun(split, settings, 0)
    mean, penalty = np.float32(split.mean), np.float32(settings.penalty)
    users, items, values = split.train
    of_users = plain.by_row(users, items, values, split.num_users)
    of_items = plain.by_row(items, users, values, split.num_items)
    while True:
        descent.descend(p, q, *of_users, mean, penalty, 0, settings.k + 1)
        descent.descend(q, p, *of_items, mean, penalty, 0, settings.k + 1)
        yield p, q


def objective(split: Split, settings: plain.Settings, p: Float32s, q: Float32s) -> float:
    """Squared errors and penalties, which both bring down."""
    users, items, values = split.train
    k = settings.k
    said = split.mean + np.einsum("nk,nk->n", p[users, :k], q[items, :k])
    errors = values - said - p[users, k] - q[items, k]
    weights = [(np.square(rows).sum(1), of) for rows, of in ((p, users), (q, items))]
    return float(
        np.square(errors).sum()
        + settings.penalty * sum(squares[of].sum() for squares, of in weights)
    )


def main(arguments: Sequence[str]) -> int:
    """Run both, print and keep; see the module."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.tables.ccd_by_feature", description=__doc__
    )
    parser.add_argument("--data", choices=DATA, default="movielens")
    parser.add_argument("--factors", default="16,64")
    parser.add_argument("--inner", default="1,3", help="times that a feature is fitted")
    flags = parser.parse_args(arguments[1:])
    where, split = circumstances(arguments), DATA[flags.data]()
    rows = [["", "iterations", "processor ms", "objective", "RMSE"]]
    for k in map(int, flags.factors.split(",")):
        settings = plain.Settings(k=k)
        loops = {f"row by row, k = {k}": by_row(split, settings)}
        for inner in map(int, flags.inner.split(",")):
            name = f"by feature, k = {k}, {inner} each"
            loops[name] = by_feature(split, settings, inner)
        next(by_feature(split, settings, 1))  # compiled before a clock runs
        for name, loop in loops.items():
            used_s = 0.0
            for iteration in range(1, SHOWN[-1] + 1):
                began_s = time.process_time()
                p, q = next(loop)
                used_s += time.process_time() - began_s
                if iteration in SHOWN:
                    found = objective(split, settings, p, q)
                    error = plain.test_rmse(split, p, q)
                    told = [f"{1000 * used_s:.0f}", f"{found:,.0f}", f"{error:.4f}"]
                    rows.append([name, str(iteration), *told])
    print(table(rows))
    print(f"\n{write('ccd_by_feature', {**where, 'rows': rows})}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
