"""int4: as int8, in half of the bytes, with what the rounding leaves out to be kept.

::

    scale = max |x| / 7,    q = round(x / scale), ties to even,    decoded: q * scale
    code:  scales, float32  |  q + 8, two to a byte, the first in the lower half

A stretch is short, 128 elements: of 15 levels a single great element leaves its neighbors
nearly none. That costs 4 bytes in 68. The error of an element is at most half a scale,
which is much; the sender keeps it (`Codec.keeps_rest`) and adds it to the next gradient, so
that none of it is lost (Karimireddy et al. 2019, error feedback).

Gradients of rows travel as they are: nobody could keep what was left out of every id.

Source: 4 bits for the outer gradients of DiLoCo are of Douillard et al. 2025 (Streaming
DiLoCo), there as floats without feedback.
"""

from typing import Final, final

import numpy as np

from paceline.params.codecs.codec import Bytes, Codec, Float32s, require_bytes
from paceline.params.codecs.int8 import Int8s, decode_levels, encode_levels
from paceline.params.codecs.plain_rows import (
    decode_plain_rows,
    encode_plain_rows,
    plain_row_bytes,
)

STRETCH: Final = 128  # elements
_SCALE_BYTES = 4
_LEVELS = np.float32(7)
_ZERO = 8  # what is added to a level, so that none is negative


@final
class Int4(Codec):
    """4 bits an element."""

    codes_rows = False
    keeps_rest = True

    def coded_bytes(self, num: int) -> int:
        """See `Codec.coded_bytes`."""
        return _SCALE_BYTES * -(-num // STRETCH) + -(-num // 2)

    def encode(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode`."""
        num, whole = values.size, values.size // STRETCH
        split = whole * STRETCH
        scales, packed = _parts(coded, num)
        levels: Int8s = np.zeros(num + num % 2, np.int8)  # an odd one has company
        encode_levels(
            values[:split].reshape(whole, STRETCH),
            scales[:whole],
            levels[:split].reshape(whole, STRETCH),
            _LEVELS,
        )
        if split < num:
            encode_levels(
                values[None, split:], scales[whole:], levels[None, split:num], _LEVELS
            )
        halves = (levels + np.int8(_ZERO)).view(np.uint8)
        np.bitwise_or(halves[::2], halves[1::2] << 4, out=packed)

    def decode(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode`."""
        num, whole = values.size, values.size // STRETCH
        split = whole * STRETCH
        require_bytes(coded, self.coded_bytes(num), "int4")
        scales, packed = _parts(coded, num)
        levels: Int8s = np.empty(num + num % 2, np.int8)
        levels[::2] = packed & 0xF
        levels[1::2] = packed >> 4
        levels -= _ZERO
        decode_levels(
            scales[:whole],
            levels[:split].reshape(whole, STRETCH),
            values[:split].reshape(whole, STRETCH),
        )
        if split < num:
            decode_levels(scales[whole:], levels[None, split:num], values[None, split:])

    def coded_row_bytes(self, rows: int, dim: int) -> int:
        """See `Codec.coded_row_bytes`."""
        return plain_row_bytes(rows, dim)

    def encode_rows(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode_rows`."""
        encode_plain_rows(values, coded)

    def decode_rows(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode_rows`."""
        decode_plain_rows(coded, values)


def _parts(coded: Bytes, num: int) -> tuple[Float32s, Bytes]:
    split = _SCALE_BYTES * -(-num // STRETCH)
    return coded[:split].view(np.float32), coded[split:]
