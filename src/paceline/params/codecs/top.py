"""top<P>%: the greatest of each stretch of a dense gradient, exact, and where they lie.

::

    stretch   4,096 elements of a block; the last may be short
    sent      of each stretch the ceil(P % of it) greatest by magnitude; of equal ones the
              first
    code      values, float32  |  numbers of their elements within the stretch, uint16
              stretch after stretch, ascending in each

Stretches, not the block: choosing among 4,096 elements is several times faster than among
millions, and every part of a layer gets its turn. What is left out is the sender's to keep
(`Codec.keeps_rest`), and to add to the next gradient; without that it does not learn
(Stich et al. 2018, Sparsified SGD with Memory).

Gradients of rows travel as they are: only rows that a batch touched are there at all.
"""

import math
from fractions import Fraction
from typing import Any, Final, NamedTuple, final

import numpy as np

from paceline.errors import UsageError
from paceline.params.codecs.codec import Bytes, Codec, Float32s, require_bytes

STRETCH: Final = 4096  # elements; their numbers fit 16 bits
_AT_ONCE: Final = 64  # stretches: what is worked on stays in the cache
_ENTRY_BYTES = 4 + 2

Places = np.ndarray[Any, np.dtype[np.uint16]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]


class _Piece(NamedTuple):
    """Stretches of one length: ``start..stop`` (half open) of a block's elements.

    ``kept`` of each are sent, which makes ``first..last`` of the block's entries.
    """

    start: int
    stop: int
    length: int
    kept: int
    first: int
    last: int


@final
class Top(Codec):
    """A share of the elements."""

    codes_rows = False
    keeps_rest = True

    def __init__(self, share: Fraction) -> None:
        """Keep this share, in (0, 1]."""
        self._share = share

    def coded_bytes(self, num: int) -> int:
        """See `Codec.coded_bytes`."""
        return _ENTRY_BYTES * max((p.last for p in self._pieces(num)), default=0)

    def encode(self, values: Float32s, coded: Bytes) -> None:
        """See `Codec.encode`."""
        entries, places = _parts(coded)
        for start, stop, length, kept, first, last in self._pieces(values.size):
            some = values[start:stop]
            chosen = _greatest(np.abs(some).reshape(-1, length), kept)
            np.take(some, chosen, out=entries[first:last])
            places[first:last] = chosen % length

    def decode(self, coded: Bytes, values: Float32s) -> None:
        """See `Codec.decode`."""
        require_bytes(coded, self.coded_bytes(values.size), "top")
        entries, found = _parts(coded)
        places = found.copy()  # memory of others may change: what is checked is used
        values[:] = 0
        for start, stop, length, kept, first, last in self._pieces(values.size):
            where = places[first:last].reshape(-1, kept)
            _require_places(where, length)
            stretches = values[start:stop].reshape(-1, length)
            some = entries[first:last].reshape(-1, kept)
            np.put_along_axis(stretches, where.astype(np.int64), some, axis=1)

    def _pieces(self, num: int) -> list[_Piece]:
        """The stretches of ``num`` elements, some at a time."""
        whole = num // STRETCH * STRETCH
        pieces: list[_Piece] = []
        kept, entry = math.ceil(self._share * STRETCH), 0
        for start in range(0, whole, _AT_ONCE * STRETCH):
            stop = min(start + _AT_ONCE * STRETCH, whole)
            last = entry + (stop - start) // STRETCH * kept
            pieces.append(_Piece(start, stop, STRETCH, kept, entry, last))
            entry = last
        if whole < num:
            kept = math.ceil(self._share * (num - whole))
            pieces.append(_Piece(whole, num, num - whole, kept, entry, entry + kept))
        return pieces


def _parts(coded: Bytes) -> tuple[Float32s, Places]:
    split = coded.nbytes // _ENTRY_BYTES * 4
    return coded[:split].view(np.float32), coded[split:].view(np.uint16)


def _greatest(magnitudes: Float32s, kept: int) -> Int64s:
    """Where the ``kept`` greatest of each row lie, flat, ascending; of equals the first."""
    length = magnitudes.shape[1]
    bits = magnitudes.view(np.int32)  # sorts as the floats do, and faster: none is < 0
    least = np.partition(bits, length - kept, axis=1)[:, length - kept, None]
    chosen = bits >= least
    found = np.flatnonzero(chosen)
    if len(found) == kept * len(bits):
        return found
    # More than are wanted: of those that equal the least, the first.
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > kept)
    some, bound = bits[crowded], least[crowded]
    greater, equal = some > bound, some == bound
    wanted = kept - np.count_nonzero(greater, axis=1)[:, None]
    chosen[crowded] = greater | (equal & (np.cumsum(equal, axis=1) <= wanted))
    return np.flatnonzero(chosen)


def _require_places(places: Places, length: int) -> None:
    """Refuse what is not ascending within a stretch.

    Raises:
        UsageError: an element is named that is not there, or one twice.
    """
    is_ascending = bool((places[:, 1:] > places[:, :-1]).all())
    if not is_ascending or bool((places[:, -1] >= length).any()):
        raise UsageError(
            f"top: expected distinct ascending elements of 0..{length - 1} in each "
            f"stretch, got others, up to {places.max()}"
        )
