"""Cutting dense parameters into blocks, and placing slots on servers, balanced by bytes.

::

    split = min(servers, max(1, numel // min_block))
    size  = ceil(numel / split), rounded up to whole rows
    | size | size | size | rest |          split may shrink by the rounding

A part is cut once, when it is created; placement never cuts again, since a fused
optimizer may change the last bits of a parameter that is cut elsewhere.

::

    sizes 9 | 4 4 4 4 | 1        servers a b
    a: 9   4 4   1               largest first; slots of one size go round the servers,
    b:     4 4                   the lightest server first

Pure and deterministic; imports neither torch nor numpy.

Source of the cut: the rule of Paddle Fluid's `slice_variable`.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

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

    No parameter is cut into more blocks than there are servers, and none below
    ``min_block`` elements, where it does not pay. A block names its parameter by its index.
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


def num_row_slots(num_servers: int) -> int:
    """Slots over which the rows of a part are spread.

    Several per server, so that slots can move when servers are added later; few, since
    every slot that a batch touches costs a lookup of its own.
    """
    return max(16, 4 * num_servers)


def place_slots(
    sizes: Mapping[int, int],
    servers: Sequence[str],
    loads: Mapping[str, int] | None = None,
) -> dict[int, str]:
    """Give every slot a server: ``{slot: server id}``, ascending by slot.

    Servers differ by at most one in how many slots of any one size they hold, so row
    slots spread evenly; and in bytes by at most the largest slot, or by as much as
    ``loads`` differ already.

    Sizes and loads are bytes; among equally loaded servers the earlier one is chosen.

    Raises:
        UsageError: there is no server to place slots on.
    """
    if not servers:
        raise UsageError(f"expected at least one server to place {len(sizes)} slots on")
    load = {server: (loads or {}).get(server, 0) for server in servers}
    placement: dict[int, str] = {}
    largest_first = sorted(sizes, key=lambda slot: (-sizes[slot], slot))
    for size, slots in groupby(largest_first, key=sizes.__getitem__):
        waiting = list(slots)
        while waiting:
            lightest_first = sorted(servers, key=load.__getitem__)
            for slot, server in zip(waiting, lightest_first, strict=False):
                placement[slot] = server
                load[server] += size
            waiting = waiting[len(servers) :]
    return dict(sorted(placement.items()))
