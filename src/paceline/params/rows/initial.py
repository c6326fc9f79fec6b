"""The values of a new row: a pure function of (seed, table, id).

So a row is the same whoever touches it first, on however many servers, before and after
a restart; and an unseen row can be read without being made.

Pure.
"""

import math
from typing import Any

import numpy as np
import xxhash

from paceline.config import Constant, Highest, Lowest, Normal, RowInit, Uniform, Zeros
from paceline.params.rows import compiled
from paceline.params.rows.compiled import Float32s, Int64s

_MASK = 2**64 - 1


def table_key(name: str) -> int:
    """The 64-bit key of a table: xxh3-64 of its name, the same on every machine."""
    return xxhash.xxh3_64_intdigest(name.encode())


def init_key(seed: int, name: str) -> int:
    """The 64-bit key of all draws for a table under a job's seed."""
    return int(compiled.kernels.mix64(np.uint64((seed & _MASK) ^ table_key(name))))


def fill_initial(init: RowInit, key: int, ids: Int64s, out: Float32s) -> None:
    """Write the initial row of each id into ``out``, float32 (n, dim); see `init_key`."""
    match init:
        case Zeros():
            out.fill(0.0)
        case Uniform(bound):
            compiled.kernels.draw_uniform(np.uint64(key), ids, np.float32(bound), out)
        case Normal(std):
            compiled.kernels.draw_normal(np.uint64(key), ids, std, out)
        case Constant() | Lowest() | Highest():
            out.fill(begin_of(init, out.dtype))


def begin_of(init: Constant | Lowest | Highest, dtype: np.dtype[Any]) -> int | float:
    """The number that all rows of a dtype begin as."""
    if isinstance(init, Constant):
        return init.value
    if dtype.kind == "f":
        return -math.inf if isinstance(init, Lowest) else math.inf
    bounds = np.iinfo(dtype)
    return int(bounds.min if isinstance(init, Lowest) else bounds.max)
