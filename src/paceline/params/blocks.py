"""Cutting dense parameters into blocks.

::

    split = min(servers, max(1, numel // min_block))
    size  = ceil(numel / split), rounded up to whole rows
    | size | size | size | rest |          split may shrink by the rounding

A part is cut once, when it is created; placement never cuts again, since a fused
optimizer may change the last bits of a parameter that is cut elsewhere.

Pure; imports neither torch nor numpy.

Source: the rule of Paddle Fluid's `slice_variable`.
"""

import math
from collections.abc import Sequence

from paceline.errors import UsageError
from paceline.messages.shared import Block, ParameterSpec

_DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of a shareable dtype, named as torch does (``"float32"``).

    Raises:
        UsageError: no optimizer steps on this dtype, so it cannot be shared.
    """
    if dtype not in _DTYPE_BYTES:
        raise UsageError(
            f"a shared parameter has one of the dtypes {', '.join(_DTYPE_BYTES)}, "
            f"got {dtype!r}: convert it or freeze it (requires_grad=False)"
        )
    return _DTYPE_BYTES[dtype]


def cut_blocks(
    parameters: Sequence[ParameterSpec],
    num_servers: int,
    *,
    first_slot: int,
    min_block: int = 8192,
) -> tuple[Block, ...]:
    """Cut parameters into blocks, one slot each, numbered from ``first_slot``.

    The blocks of a parameter cover it exactly, in order; each holds whole rows when the
    parameter has two or more dimensions; none is empty, so an empty parameter has none.

    Args:
        parameters: in the order of the part; a block names its parameter by index.
        num_servers: no parameter is cut into more blocks than this.
        first_slot: slot of the first block.
        min_block: elements below which cutting does not pay.
    """
    blocks: list[Block] = []
    for index, parameter in enumerate(parameters):
        numel = math.prod(parameter.shape)
        size = _block_size(parameter.shape, num_servers, min_block)
        for start in range(0, numel, size):
            slot = first_slot + len(blocks)
            blocks.append(Block(slot, index, start, min(start + size, numel)))
    return tuple(blocks)


def _block_size(shape: tuple[int, ...], num_servers: int, min_block: int) -> int:
    """Elements of every block but the last, at least 1."""
    numel = math.prod(shape)
    split = min(num_servers, max(1, numel // min_block))
    width = math.prod(shape[1:]) if len(shape) >= 2 else 1
    rows = -(-numel // (split * max(1, width)))
    return max(1, rows * width)
