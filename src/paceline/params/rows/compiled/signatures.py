"""How the loops of the row path are compiled, and what they take.

Each has one signature and is compiled when its module is first imported, then read from
where `kernel_cache` says. They release the GIL, start no threads, and use no fast-math:
sums are in the order of the loop. Whoever must wait for the compiler is told, once.

Pure, but for the log.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any, final

import numba
from numba import types
from numba.core import event

from paceline.params.rows.compiled.kernel_cache import is_kept_at_all

# What lies in a received or to-be-sent frame may be read-only or unaligned.
IDS = types.Array(types.int64, 1, "C", readonly=True, aligned=False)
GRADIENTS = types.Array(types.float32, 2, "C", readonly=True, aligned=False)
OUT = types.Array(types.float32, 2, "C", aligned=False)
CELLS = types.int64[:, ::1]
INDEXES = types.int64[::1]
VALUES = types.float32[:, ::1]


@final
class _Compiling(event.Listener):  # type: ignore[misc]  # numba is typed by name only
    """Hears that a loop is compiled, and not read."""

    def on_start(self, event: object) -> None:
        del event
        _tell_compiling()

    def on_end(self, event: object) -> None:
        del event


@functools.cache
def _tell_compiling() -> None:
    log = logging.getLogger("paceline.kernels")
    log.warning("compiling the row kernels, once: this may take a minute")


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401  # numba's door: it types what it compiles
    """Compile a function for one signature, at once."""
    make: Callable[[Callable[..., Any]], Any] = numba.njit(
        [signature], cache=is_kept_at_all(), nogil=True, error_model="numpy"
    )

    def made(loop: Callable[..., Any]) -> Any:  # noqa: ANN401  (as above)
        with event.install_listener("numba:compile", _Compiling()):
            return make(loop)

    return made
