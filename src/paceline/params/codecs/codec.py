"""What every codec promises.

Pure; any thread may call.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from paceline.errors import UsageError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Float32s = np.ndarray[Any, np.dtype[np.float32]]


class Codec(ABC):
    """Codes float32 arrays; without state. Rows travel as they are if it says no more.

    Attributes:
        codes_values: it codes what is pulled, too, each element alone: any piece of what
            is coded is the code of that piece.
        codes_rows: it codes gradients of rows.
        keeps_rest: what it leaves out is to be added to the next gradient.
        limit: a finite element of this magnitude or more cannot be coded; `encode` makes
            it the greatest that can.
    """

    codes_values: bool = False
    codes_rows: bool = True
    keeps_rest: bool = False
    limit: float = math.inf

    @abstractmethod
    def coded_bytes(self, num: int) -> int:
        """How many bytes ``num`` elements of a dense block take."""

    @abstractmethod
    def encode(self, values: Float32s, coded: Bytes) -> None:
        """Code a dense block, (n,), into ``coded_bytes(n)`` bytes; both are contiguous.

        All is finite, unless the codec codes values.
        """

    @abstractmethod
    def decode(self, coded: Bytes, values: Float32s) -> None:
        """Write what was coded into ``values``, float32 (n,), contiguous.

        Raises:
            UsageError: these bytes are no code of n elements; what ``values`` holds then
                is not said.
        """

    def coded_row_bytes(self, rows: int, dim: int) -> int:
        """How many bytes gradients of rows take."""
        return 4 * rows * dim

    def encode_rows(self, values: Float32s, coded: Bytes) -> None:
        """Code gradients of rows; as `encode`, of ``values`` (rows, dim)."""
        coded.view(np.float32).reshape(values.shape)[:] = values

    def decode_rows(self, coded: Bytes, values: Float32s) -> None:
        """Decode gradients of rows; as `decode`, into ``values`` (rows, dim)."""
        require_bytes(coded, values.nbytes, "rows")
        values[:] = coded.view(np.float32).reshape(values.shape)


def require_bytes(coded: Bytes, expected: int, what: str) -> None:
    """Refuse a code of another size with a `UsageError`."""
    if coded.nbytes != expected:
        raise UsageError(f"{what}: expected {expected} bytes, got {coded.nbytes}")
