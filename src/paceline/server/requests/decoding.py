"""Coded numbers of requests: gradients decoded before anything is decided.

::

    push as it came --decoded--> the same push as a part without a codec would have sent

So what a push does never depends on how it travelled. Decoding is the one part of taking a
push that computes; it is done before the state's lock is taken, in memory of its own.

Pure.
"""

from collections.abc import Callable, Sequence

import numpy as np

from paceline.errors import UsageError
from paceline.messages.data import Push
from paceline.params.codecs import Codec, Float32s
from paceline.server.requests.contents import Bytes
from paceline.server.requests.layouts import BlockLayout, PartLayout

_ROW_NUMBER_BYTES = 8
_FLOAT_BYTES = 4


def decode_push(
    layout: PartLayout, push: Push, buffers: list[Bytes]
) -> tuple[list[Bytes], int]:
    """What the push would hold if its part had no codec; of how many bytes as it came.

    What does not fit the part is left as it is, for `read_push` to refuse.

    Raises:
        UsageError: a gradient is no code of what the part has there.
    """
    num_blocks = len(push.blocks)
    num_pairs = len(push.sparse_blocks) + len(push.rows)
    num_gradients = num_blocks + 2 * num_pairs
    if len(buffers) != num_gradients + len(push.then):
        return buffers, 0
    plain = list(buffers)
    gradients = [*range(num_blocks), *range(num_blocks + 1, num_gradients, 2)]
    for index, slot in zip(gradients, push.blocks, strict=False):
        block = layout.blocks.get(slot)
        if block is not None and block.codec is not None and not block.row_bytes:
            what = f"dense slot {slot}"
            plain[index] = _dense(block.codec, what, buffers[index], block.num_bytes)
    if layout.codec is not None and layout.codec.codes_rows:
        for index, dim, what in _rows_of(layout, push, gradients[num_blocks:]):
            count = buffers[index - 1].nbytes // _ROW_NUMBER_BYTES
            plain[index] = _rows(layout.codec, what, buffers[index], count, dim)
    return plain, sum(buffers[index].nbytes for index in gradients)


def _rows_of(
    layout: PartLayout, push: Push, indices: Sequence[int]
) -> list[tuple[int, int, str]]:
    """Of each coded gradient of rows: which buffer it is, its dim, and whose it is."""
    found = []
    num_sparse = len(push.sparse_blocks)
    for index, slot in zip(indices, push.sparse_blocks, strict=False):
        block = layout.blocks.get(slot)
        if block is not None and block.codec is not None and block.row_bytes:
            found.append((index, block.row_bytes // _FLOAT_BYTES, f"rows of slot {slot}"))
    for index, entry in zip(indices[num_sparse:], push.rows, strict=False):
        if entry.table in layout.tables:
            dim = layout.tables[entry.table].dim
            found.append((index, dim, f"table {entry.table!r}"))
    return found


def _dense(codec: Codec, what: str, coded: Bytes, num_bytes: int) -> Bytes:
    plain = np.empty(num_bytes, np.uint8)
    _named(what, codec.decode, coded, plain.view(np.float32))
    return plain


def _rows(codec: Codec, what: str, coded: Bytes, count: int, dim: int) -> Bytes:
    expected = codec.coded_row_bytes(count, dim)
    if coded.nbytes != expected:  # before there is memory for what it says it is
        raise UsageError(
            f"gradients of {what}: expected {expected} bytes of {count} coded rows, got "
            f"{coded.nbytes}"
        )
    plain = np.empty(_FLOAT_BYTES * count * dim, np.uint8)
    values = plain.view(np.float32).reshape(count, dim)
    _named(what, codec.decode_rows, coded, values)
    return plain


def _named(
    what: str, decode: Callable[[Bytes, Float32s], None], coded: Bytes, values: Float32s
) -> None:
    try:
        decode(coded, values)
    except UsageError as error:
        raise UsageError(f"gradients of {what}: {error}") from error


def coded_block_bytes(block: BlockLayout) -> int:
    """How many bytes the values of a dense block have in an answer."""
    codec = block.value_codec
    if codec is None:
        return block.num_bytes
    return codec.coded_bytes(block.num_bytes // _FLOAT_BYTES)
