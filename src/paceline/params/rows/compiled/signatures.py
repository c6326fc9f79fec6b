"""How the loops of the row path are compiled, and what they take.

Each has one signature and is compiled when its module is first imported, then read from
where `kernel_cache` says. They release the GIL, start no threads, and use no fast-math:
sums are in the order of the loop.

Pure.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba import types

from paceline.params.rows.compiled.kernel_cache import is_kept_at_all

# What lies in a received or to-be-sent frame may be read-only or unaligned.
IDS = types.Array(types.int64, 1, "C", readonly=True, aligned=False)
GRADIENTS = types.Array(types.float32, 2, "C", readonly=True, aligned=False)
OUT = types.Array(types.float32, 2, "C", aligned=False)
CELLS = types.int64[:, ::1]
INDEXES = types.int64[::1]
VALUES = types.float32[:, ::1]


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401  # numba's door: it types what it compiles
    """Compile a function for one signature, at once."""
    found: Callable[[Callable[..., Any]], Any] = numba.njit(
        [signature], cache=is_kept_at_all(), nogil=True, error_model="numpy"
    )
    return found
