"""Records to classify: digits, clothes, tumours, or drawn here; 70 % to train on.

The real sets come from packages: see `paceline.data.sets.sets`.
"""

import gzip
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets import sets

NAMES = ("digits", "breast_cancer", "fashion-mnist", "drawn")
_TRAIN_SHARE = 0.7
_DRAWN = (2000, 12, 5)  # records, features, classes

Features = NDArray[np.float64]


class Records(NamedTuple):
    """Features ``(n, d)`` float64, the last one 1, and classes ``(n,)`` int64."""

    features: Features
    labels: NDArray[np.int64]


def load(name: str, seed: int) -> tuple[Records, Records]:
    """Train and test records, features of mean 0 and deviation 1 on those to train on.

    Args:
        name: one of `NAMES`.
        seed: of the split.

    Raises:
        FetchError: the set is not on this machine and could not be fetched.
        ValueError: there is no set of that name.
    """
    if name == "digits":
        [path] = sets.wait_for_files("digits").values()
        with gzip.open(path) as file:
            table = np.loadtxt(file, delimiter=",")
    elif name == "breast_cancer":
        [path] = sets.wait_for_files("breast_cancer").values()
        table = np.loadtxt(path, delimiter=",", skiprows=1)
    elif name == "fashion-mnist":
        table = _read_clothes()
    elif name == "drawn":
        table = _draw()
    else:
        raise ValueError(f"data set {name!r}: expected one of {', '.join(NAMES)}")
    return split(table[:, :-1], table[:, -1].astype(np.int64), seed)


def split(
    features: Features, labels: NDArray[np.int64], seed: int
) -> tuple[Records, Records]:
    """70 % and 30 % at random, scaled, each record with a 1 behind its features."""
    order = np.random.default_rng(seed).permutation(len(features))
    num_train = round(len(features) * _TRAIN_SHARE)
    chosen = features[order[:num_train]]
    mean, deviation = chosen.mean(0), chosen.std(0)
    deviation[deviation == 0] = 1  # pixels that are never lit
    scaled = np.c_[(features - mean) / deviation, np.ones(len(features))][order]
    found = Records(scaled, labels[order])
    return (
        Records(found.features[:num_train], found.labels[:num_train]),
        Records(found.features[num_train:], found.labels[num_train:]),
    )


def _read_clothes() -> Features:
    """60,000 images of 784 pixels, and behind them what each shows."""
    files = sets.wait_for_files("fashion-mnist")
    pixels, kinds = (
        np.frombuffer(gzip.decompress(files[f"train-{name}-ubyte.gz"].read_bytes()), "u1")
        for name in ("images-idx3", "labels-idx1")
    )
    return np.c_[pixels[16:].reshape(-1, 784), kinds[8:]].astype(np.float64)


def _draw() -> Features:
    count, dim, kinds = _DRAWN
    draws = np.random.default_rng(5)
    labels = draws.integers(0, kinds, count)
    centers = draws.normal(0, 2, (kinds, dim))
    return np.c_[centers[labels] + draws.normal(0, 1, (count, dim)), labels]
