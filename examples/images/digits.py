"""Images of digits, drawn here: a font of 5 x 7 dots, moved about, in noise.

So the example needs no download; the same seed draws the same images on every machine.
"""

import numpy as np
import torch
from torch import Tensor

SIZE = 12  # pixels of an image, each way
_NOISE = 0.25
_FONT = (  # a row of dots of all ten digits, from top to bottom
    " ### |  #  | ### | ### |   # |#####| ### |#####| ### | ### ",
    "#   #| ##  |#   #|#   #|  ## |#    |#    |    #|#   #|#   #",
    "#  ##|  #  |    #|    #| # # |#### |#    |   # |#   #|#   #",
    "# # #|  #  |  ## |  ## |#  # |    #|#### |  #  | ### | ####",
    "##  #|  #  | #   |    #|#####|    #|#   #|  #  |#   #|    #",
    "#   #|  #  |#    |#   #|   # |#   #|#   #|  #  |#   #|    #",
    " ### | ### |#####| ### |   # | ### | ### |  #  | ### | ### ",
)


def draw(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images float32 ``(count, 1, 12, 12)`` and the digit of each, int64 ``(count,)``."""
    rows = [line.split("|") for line in _FONT]
    dots = np.array([[list(row[digit]) for row in rows] for digit in range(10)]) == "#"
    draws = np.random.default_rng(seed)
    labels = draws.integers(0, 10, count)
    images = draws.normal(0, _NOISE, (count, 1, SIZE, SIZE)).astype(np.float32)
    downs, rights = draws.integers(0, SIZE - 6, count), draws.integers(0, SIZE - 4, count)
    for image, digit, down, right in zip(images, labels, downs, rights, strict=True):
        image[0, down : down + 7, right : right + 5] += dots[digit]
    return torch.from_numpy(images), torch.from_numpy(labels)
