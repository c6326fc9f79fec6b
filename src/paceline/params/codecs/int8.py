"""int8: whole multiples of a scale, which a row or a stretch of a dense block has.

::

    scale = max |x| / 127,    q = round(x / scale), ties to even,    decoded: q * scale
    code:  scales, float32  |  q, int8

The error of an element is at most half a scale. A dense block has a scale for every 1,024
elements rather than one for all: a single great element spoils the digits of its stretch,
not of a whole layer, for 4 bytes in 1,024.

A scale below the least normal float32 is 0, and so are its elements: whether such numbers
exist depends on how a machine is set.

Source: the blocks of Dettmers et al. 2022 (8-bit optimizers), with an even grid.
"""

from typing import Final, final

import numpy as np
import torch

from paceline.errors import UsageError
from paceline.params.codecs.codec import Bytes, Codec, Float32s, require_bytes

STRETCH: Final = 1024  # elements
_AT_ONCE: Final = 256 << 10  # elements: what is worked on stays in the cache
_SCALE_BYTES = 4
_LEVELS = np.float32(127)


@final
class Int8(Codec):
    """8 bits an element."""

    def coded_bytes(self, num: int) -> int:
        """See `Codec.coded_bytes`."""
        return _SCALE_BYTES * -(-num // STRETCH) + num

    def encode(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode`."""
        scales, levels = _parts(coded, -(-values.size // STRETCH))
        encode_stretches(values, scales, levels, STRETCH, _LEVELS)

    def decode(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode`."""
        require_bytes(coded, self.coded_bytes(values.size), "int8")
        scales, levels = _parts(coded, -(-values.size // STRETCH))
        decode_stretches(scales, levels, values, STRETCH)

    def coded_row_bytes(self, rows: int, dim: int) -> int:
        """See `Codec.coded_row_bytes`."""
        return _SCALE_BYTES * rows + rows * dim

    def encode_rows(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode_rows`."""
        scales, levels = _parts(coded, len(values))
        _encode(values, scales, levels.reshape(values.shape), _LEVELS)

    def decode_rows(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode_rows`."""
        require_bytes(coded, self.coded_row_bytes(*values.shape), "rows in int8")
        scales, levels = _parts(coded, len(values))
        _decode(scales, levels.reshape(values.shape), values)


Int8s = np.ndarray[tuple[int, ...], np.dtype[np.int8]]


def _parts(coded: Bytes, num_scales: int) -> tuple[Float32s, Int8s]:
    split = _SCALE_BYTES * num_scales
    return coded[:split].view(np.float32), coded[split:].view(np.int8)


def encode_stretches(
    values: Float32s, scales: Float32s, levels: Int8s, stretch: int, most: np.float32
) -> None:
    """Write ``values`` (n,), finite, as multiples of a scale for each stretch.

    ``levels`` (n,) are then from ``-most`` to ``most``; the last stretch may be short.
    """
    whole = values.size // stretch
    split = whole * stretch
    rows, places = values[:split], levels[:split].reshape(whole, stretch)
    _encode(rows.reshape(whole, stretch), scales[:whole], places, most)
    if split < values.size:
        _encode(values[None, split:], scales[whole:], levels[None, split:], most)


def decode_stretches(
    scales: Float32s, levels: Int8s, values: Float32s, stretch: int
) -> None:
    """Write into ``values`` (n,) what `encode_stretches` has coded."""
    whole = values.size // stretch
    split = whole * stretch
    rows, places = levels[:split].reshape(whole, stretch), values[:split]
    _decode(scales[:whole], rows, places.reshape(whole, stretch))
    if split < values.size:
        _decode(scales[whole:], levels[None, split:], values[None, split:])


def _encode(values: Float32s, scales: Float32s, levels: Int8s, most: np.float32) -> None:
    """Write each row of ``values`` (n, dim) as multiples of a scale of its own."""
    if not values.size:
        scales[:] = 0
        return
    at_once = max(1, _AT_ONCE // values.shape[1])
    for start in range(0, len(values), at_once):
        some = values[start : start + at_once]
        # torch is several times faster than NumPy at this, where rows are short.
        greatest = torch.from_numpy(some).abs().amax(1).numpy()
        scale = greatest / most
        scale[scale < np.finfo(np.float32).tiny] = 0
        with np.errstate(over="ignore"):
            beyond = np.isinf(scale * most)
        scale[beyond] = np.nextafter(scale[beyond], np.float32(0))
        scales[start : start + at_once] = scale
        divisor = np.where(scale > 0, scale, np.float32(1))
        quotient = some / divisor[:, None]
        levels[start : start + at_once] = np.rint(quotient, out=quotient)


def _decode(scales: Float32s, levels: Int8s, values: Float32s) -> None:
    try:
        with np.errstate(over="raise"):
            np.multiply(levels, scales[:, None], out=values, casting="same_kind")
    except FloatingPointError:  # no scale that `_encode` has made
        greatest = float(np.abs(scales).max())
        raise UsageError(
            f"int8: expected scales whose multiples are float32, got {greatest:g}"
        ) from None
