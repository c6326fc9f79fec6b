"""The loops of the row path, compiled by numba.

::

    kernels, step_kernels, distinct_kernels   hashing, id map, sums; steps; distinct ids
    signatures              how they are compiled
    kernel_cache            where they are kept
    prefetch                a hint to the processor
    arrays                  what they take, by name

Each module of loops loads when it is asked for: numba alone takes a second, and a job
without rows needs none of it.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader
from paceline.params.rows.compiled.arrays import Float32s, Int64s, empty_rows
from paceline.params.rows.compiled.loading import load_loops

if TYPE_CHECKING:
    from paceline.params.rows.compiled import distinct_kernels, kernels, step_kernels

_LAZY = {
    name: f"{__name__}.{name}" for name in ("distinct_kernels", "kernels", "step_kernels")
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
