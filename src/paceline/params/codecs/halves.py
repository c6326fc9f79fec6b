"""fp16 and bf16: every element alone, rounded to the nearest, ties to even.

::

    float32   1 sign   8 exponent   23 mantissa
    bf16      1        8             7            float32's range, 3 digits
    fp16      1        5            10            up to 65,504, 4 digits; below 6e-8 it is 0

A finite element beyond the range would round to infinity: it becomes the greatest finite
one instead. (Gradients never come to that: a trainer refuses them whole.) What is infinite
or NaN stays so.
"""

from typing import Final, final

import numpy as np
import torch

from paceline.params.codecs.codec import Bytes, Codec, Float32s, require_bytes

_HALF_BYTES = 2


@final
class Half(Codec):
    """Elements of two bytes."""

    codes_values = True

    def __init__(self, name: str, dtype: torch.dtype, limit: float) -> None:
        """Code as one of torch's dtypes; see `Codec` for ``limit``."""
        self.limit = limit
        self._name, self._dtype = name, dtype

    def coded_bytes(self, num: int) -> int:
        """See `Codec.coded_bytes`."""
        return _HALF_BYTES * num

    def encode(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode`."""
        if not values.size:
            return
        source = torch.from_numpy(values.reshape(-1))
        halves = torch.from_numpy(coded).view(self._dtype)
        halves.copy_(source)
        least, most = torch.aminmax(source)
        if -self.limit < float(least) and float(most) < self.limit:
            return  # neither too large nor NaN, as nearly always
        too_large = (source.abs() >= self.limit) & source.isfinite()
        greatest = torch.finfo(self._dtype).max
        halves[too_large] = (source[too_large].sign() * greatest).to(self._dtype)

    def decode(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode`."""
        require_bytes(coded, _HALF_BYTES * values.size, self._name)
        if values.size:
            halves = torch.from_numpy(coded).view(self._dtype)
            torch.from_numpy(values.reshape(-1)).copy_(halves)

    def coded_row_bytes(self, rows: int, dim: int) -> int:
        """See `Codec.coded_row_bytes`."""
        return self.coded_bytes(rows * dim)

    def encode_rows(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode_rows`."""
        self.encode(values, coded)

    def decode_rows(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode_rows`."""
        self.decode(coded, values)


# Half way from 65,504, the greatest, to what would come next.
FP16: Final = Half("fp16", torch.float16, 65520.0)
# Half way from the greatest, 0x7f7f, to what would come next.
BF16: Final = Half("bf16", torch.bfloat16, float(np.uint32(0x7F7F8000).view(np.float32)))
