"""The arrays that the compiled loops take, by name, for whoever imports no numba.

Pure.
"""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Float32s = NDArray[np.float32]

_LINE: Final = 64  # bytes of a line of the processor's cache


def empty_rows(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that begins where a line of the cache does, of numbers that nobody has set.

    So a row of 16 float32 is one line and not two. NumPy's own arrays begin anywhere.
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size].view(dtype).reshape(shape)
