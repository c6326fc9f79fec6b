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
    """Codes float32 arrays; without state.

    Attributes:
        codes_values: it codes what is pulled, too, each element alone: any piece of what
            is coded is the code of that piece.
        codes_rows: it codes gradients of rows; otherwise they travel as they are.
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
        """Code a dense block.

        Args:
            values: float32 (n,), contiguous; finite, unless the codec codes values.
            coded: where it goes, ``coded_bytes(n)`` bytes, contiguous.
        """

    @abstractmethod
    def decode(self, coded: Bytes, values: Float32s) -> None:
        """Write what was coded into ``values``, float32 (n,), contiguous.

        Raises:
            UsageError: these bytes are no code of n elements; what ``values`` holds then
                is not said.
        """

    @abstractmethod
    def coded_row_bytes(self, rows: int, dim: int) -> int:
        """How many bytes gradients of rows take."""

    @abstractmethod
    def encode_rows(self, values: Float32s, coded: Bytes) -> None:
        """Code gradients of rows; as `encode`, of ``values`` (rows, dim)."""

    @abstractmethod
    def decode_rows(self, coded: Bytes, values: Float32s) -> None:
        """Decode gradients of rows; as `decode`, into ``values`` (rows, dim)."""


def require_bytes(coded: Bytes, expected: int, what: str) -> None:
    """Refuse a code of another size.

    Raises:
        UsageError: it is of another size.
    """
    if coded.nbytes != expected:
        raise UsageError(f"{what}: expected {expected} bytes, got {coded.nbytes}")
