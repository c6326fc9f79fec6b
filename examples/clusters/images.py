"""Images to cluster: digits, Fashion-MNIST, or drawn here; pixels and what they show.

Both real sets come from packages: see `paceline.data.sets.sets`. The labels take no part in
the clustering: they say what clusters are worth.
"""

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets import sets

NAMES = ("digits", "fashion-mnist", "drawn")
_IMAGES_HEAD, _LABELS_HEAD = 16, 8  # bytes before the pixels and the labels
_FASHION_CACHE = "clusters-fashion-mnist-1.npz"
_DRAWN_SHAPE = (6000, 400)  # images to train on, held out
_DRAWN_SIZE, _DRAWN_KINDS = 12, 10


class Images(NamedTuple):
    """Pixels ``(n, d)`` uint8, of square images, and labels ``(n,)`` int64."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


class Views:
    """Pixels as a data set whose batches, of neighboring records, are not copied."""

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, record: int) -> NDArray[np.uint8]:
        return self._pixels[record]

    def __getitems__(self, records: list[int]) -> NDArray[np.uint8]:
        """All of them, ``(n, d)``."""
        first, stop = records[0], records[-1] + 1
        if stop - first == len(records):
            return self._pixels[first:stop]
        return self._pixels[records]


def as_they_are(batch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The batch of `Views`: there is nothing to collate."""
    return batch


def load(name: str) -> tuple[Images, Images]:
    """What is clustered, and what is held out; of the small digits both are all of them.

    Raises:
        FetchError: the set is not on this machine and could not be fetched.
        ValueError: there is no set of that name.
    """
    if name == "digits":
        digits = _load_digits()
        return digits, digits
    if name == "fashion-mnist":
        arrays = sets.wait_for_arrays(_FASHION_CACHE, _unpack_fashion)
        kinds = ("train", "t10k")
        first, second = [
            Images(arrays[f"{k}-images"], arrays[f"{k}-labels"]) for k in kinds
        ]
        return first, second
    if name == "drawn":
        num_train, num_test = _DRAWN_SHAPE
        return draw(num_train, seed=0), draw(num_test, seed=1)
    raise ValueError(f"data set {name!r}: expected one of {', '.join(NAMES)}")


def draw(count: int, seed: int) -> Images:
    """Images around ten patterns: the same of one seed, patterns the same of all."""
    dim = _DRAWN_SIZE**2
    patterns = np.random.default_rng(7).uniform(40, 215, (_DRAWN_KINDS, dim))
    draws = np.random.default_rng(seed)
    labels = draws.integers(0, _DRAWN_KINDS, count)
    pixels = patterns[labels] + draws.normal(0, 30, (count, dim))
    return Images(np.clip(pixels, 0, 255).astype(np.uint8), labels)


def _load_digits() -> Images:
    [path] = sets.wait_for_files("digits").values()
    with gzip.open(path) as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return Images(table[:, :-1].astype(np.uint8), table[:, -1])


def _unpack_fashion() -> dict[str, NDArray[Any]]:
    files = sets.wait_for_files("fashion-mnist")
    found: dict[str, NDArray[Any]] = {}
    for kind in ("train", "t10k"):
        labels = _unpack(files[f"{kind}-labels-idx1-ubyte.gz"], _LABELS_HEAD)
        pixels = _unpack(files[f"{kind}-images-idx3-ubyte.gz"], _IMAGES_HEAD)
        found[f"{kind}-images"] = pixels.reshape(len(labels), -1)
        found[f"{kind}-labels"] = labels.astype(np.int64)
    return found


def _unpack(path: Path, head: int) -> NDArray[np.uint8]:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=head)
