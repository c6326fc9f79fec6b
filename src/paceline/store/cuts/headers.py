"""The head of a safetensors file, so that its numbers can be written as they lie.

::

    8 bytes    length of the head, little-endian
    head       {"__metadata__": {...}, "fc.weight": {"dtype", "shape", "data_offsets"}}
    numbers    of each tensor, one after the other, in the order of the head

The library's own writer joins all tensors in memory first; buffers behind a head need no
copy. Reading is left to the library, which checks what comes.

Pure. Source: the format's description in the safetensors repository.
"""

from collections.abc import Mapping

import msgspec

from paceline.store.cuts.shares import RawTensor

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_WIDTHS = {"BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "C64": 64}  # those not told by the word


def file_buffers(tensors: Mapping[str, RawTensor], words: Mapping[str, str]) -> list[bytes]:
    """A safetensors file as buffers: the head, then each tensor's numbers.

    Wide elements come first, so that every tensor begins at a multiple of its element's
    size, which readers that map the file rely on.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-_width(item[1]), item[0]))
    head: dict[str, object] = {"__metadata__": dict(words)}
    stop = 0
    for name, tensor in ordered:
        start, stop = stop, stop + len(tensor.data)
        head[name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": (start, stop),
        }
    encoded = msgspec.json.encode(head)
    encoded += b" " * (-len(encoded) % _ALIGNMENT)
    length = len(encoded).to_bytes(_LENGTH_BYTES, "little")
    return [length, encoded, *(tensor.data for _, tensor in ordered)]


def _width(tensor: RawTensor) -> int:
    """Bits of an element, as its word tells: 64 of ``F64``, 16 of ``BF16``."""
    return _WIDTHS.get(tensor.dtype) or int(tensor.dtype.lstrip("BFIU"))
