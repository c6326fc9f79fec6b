"""The arrays that the compiled loops take, by name, for whoever imports no numba.

Pure.
"""

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Float32s = NDArray[np.float32]
