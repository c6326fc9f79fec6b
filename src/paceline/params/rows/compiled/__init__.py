"""The loops of the row path, compiled by numba.

::

    kernels, step_kernels   hashing, id map, sums; steps of optimizers
    signatures              how they are compiled
    kernel_cache            where they are kept
    prefetch                a hint to the processor
"""

from paceline.params.rows.compiled import kernels, step_kernels
from paceline.params.rows.compiled.kernels import mix64
from paceline.params.rows.compiled.signatures import (
    IDS,
    INDEXES,
    Float32s,
    Int64s,
    compiled,
)
