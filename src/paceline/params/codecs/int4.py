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
from paceline.params.codecs.int8 import Int8s, decode_stretches, encode_stretches

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
        num = values.size
        scales, packed = _parts(coded, num)
        levels: Int8s = np.zeros(num + num % 2, np.int8)  # an odd one has company
        encode_stretches(values, scales, levels[:num], STRETCH, _LEVELS)
        halves = (levels + np.int8(_ZERO)).view(np.uint8)
        np.bitwise_or(halves[::2], halves[1::2] << 4, out=packed)

    def decode(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode`."""
        num = values.size
        require_bytes(coded, self.coded_bytes(num), "int4")
        scales, packed = _parts(coded, num)
        levels: Int8s = np.empty(num + num % 2, np.int8)
        levels[::2] = packed & 0xF
        levels[1::2] = packed >> 4
        levels -= _ZERO
        decode_stretches(scales, levels[:num], values, STRETCH)


def _parts(coded: Bytes, num: int) -> tuple[Float32s, Bytes]:
    split = _SCALE_BYTES * -(-num // STRETCH)
    return coded[:split].view(np.float32), coded[split:]
