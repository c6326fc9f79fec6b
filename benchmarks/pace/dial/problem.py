"""A small network that reads digits, for many learning rates at once.

The digits are those of `examples/images`, drawn in noise at random places. Values and
gradients are float32 ``(rates, SIZE)``: one network for each learning rate, all of them on
the same batch.

Pure.
"""

import sys
from functools import cache, lru_cache
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.record import ROOT

sys.path.insert(0, str(ROOT / "examples" / "images"))

import digits

PIXELS, HIDDEN, CLASSES = digits.SIZE**2, 32, 10
RECORDS, HELD_OUT = 16_384, 400
IMAGES_SEED, HELD_OUT_SEED = 0, 1

Values = NDArray[np.float32]


class Layers(NamedTuple):
    """Views of flat values: ``(rates, PIXELS, HIDDEN)`` and so on."""

    into: Values
    bias: Values
    out: Values
    last: Values


SHAPES = ((PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
SIZE = sum(int(np.prod(shape)) for shape in SHAPES)


def layers_of(values: Values) -> Layers:
    """The layers of flat values ``(rates, SIZE)``; views."""
    found, start = [], 0
    for shape in SHAPES:
        size = int(np.prod(shape))
        found.append(values[:, start : start + size].reshape(len(values), *shape))
        start += size
    return Layers(*found)


def initial(seed: int) -> Values:
    """Values to begin with, ``(1, SIZE)``, uniform as `torch.nn.Linear` has them."""
    draws = np.random.default_rng(seed)
    bounds = (PIXELS, PIXELS, HIDDEN, HIDDEN)
    flat = [
        draws.uniform(-1, 1, int(np.prod(shape))) / np.sqrt(bound)
        for shape, bound in zip(SHAPES, bounds, strict=True)
    ]
    return np.concatenate(flat)[None].astype(np.float32)


@cache
def images(count: int, seed: int) -> tuple[Values, NDArray[np.int64]]:
    """Images ``(count, PIXELS)`` and their digits ``(count,)``; not to be written to."""
    found, labels = digits.draw(count, seed)
    return found.numpy().reshape(count, PIXELS), labels.numpy()


@lru_cache(maxsize=8)
def order(seed: int, epoch: int) -> NDArray[np.int64]:
    """In which order an epoch of a stream has the images; not to be written to."""
    return np.random.default_rng((seed, epoch)).permutation(RECORDS)


@final
class Stream:
    """Batches of the images, by number, epoch after epoch, each in an order of its own.

    Attributes:
        batch_size: images of a batch.
    """

    def __init__(self, batch_size: int, seed: int) -> None:
        """A stream of its own for each seed."""
        self.batch_size, self._seed = batch_size, seed
        self._images, self._labels = images(RECORDS, IMAGES_SEED)

    def gradient(self, values: Values, batch: int) -> Values:
        """The gradient of a batch's mean loss, as flat as the values."""
        size = self.batch_size
        epoch, place = divmod(batch, RECORDS // size)
        rows = order(self._seed, epoch)[place * size : (place + 1) * size]
        return gradient(values, self._images[rows], self._labels[rows])


def loss(values: Values) -> NDArray[np.float32]:
    """The mean loss of images that are in no stream, for each rate ``(rates,)``."""
    inputs, labels = images(HELD_OUT, HELD_OUT_SEED)
    found, logits = layers_of(values), []
    for into, bias, out, last in zip(*found, strict=True):  # the cache holds one at a time
        logits.append(np.maximum(inputs @ into + bias, 0) @ out + last)
    chances = _log_softmax(np.stack(logits))
    return -chances[:, np.arange(HELD_OUT), labels].mean(1)


def gradient(values: Values, inputs: Values, labels: NDArray[np.int64]) -> Values:
    """The gradient of the mean loss, ``(rates, SIZE)``.

    Args:
        values: ``(rates, SIZE)``.
        inputs: ``(n, PIXELS)``.
        labels: ``(n,)``.
    """
    n, found = len(labels), layers_of(values)
    hidden = np.maximum(inputs @ found.into + found.bias[:, None], 0)
    chances = np.exp(_log_softmax(hidden @ found.out + found.last[:, None]))
    chances[:, np.arange(n), labels] -= 1
    chances /= n
    result = np.empty_like(values)
    to = layers_of(result)
    back = chances @ found.out.transpose(0, 2, 1)
    back *= hidden > 0
    to.into[...] = inputs.T @ back
    to.bias[...] = back.sum(1)
    to.out[...] = hidden.transpose(0, 2, 1) @ chances
    to.last[...] = chances.sum(1)
    return result


def _log_softmax(logits: Values) -> Values:
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))
