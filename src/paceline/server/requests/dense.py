"""Dense numbers of requests: gradients of blocks in one buffer or ahead, and values.

Pure.
"""

from collections.abc import Sequence

import torch

from paceline.errors import UsageError
from paceline.messages.data import Push, PushEarly, Upload
from paceline.messages.values import SetValues
from paceline.server.requests.contents import (
    Bytes,
    block_of,
    fitting_block,
    require_bytes,
    require_count,
    require_distinct,
)
from paceline.server.requests.layouts import PartLayout


def read_together(
    layout: PartLayout, push: Push, buffers: Sequence[Bytes]
) -> tuple[dict[int, torch.Tensor], int]:
    """Gradients of a push whose blocks share buffers, and their bytes.

    Raises:
        UsageError: they do not fit the part, or it has a codec.
    """
    is_whole = min(push.together) > 0 and sum(push.together) == len(push.blocks)
    if layout.codec is not None or not is_whole:
        raise UsageError(
            f"part {layout.part}: expected {len(push.blocks)} gradients without a codec, "
            f"got {list(push.together)} in a buffer each"
        )
    found: dict[int, torch.Tensor] = {}
    num_bytes = first = 0
    for count, buffer in zip(push.together, buffers, strict=False):
        slots = push.blocks[first : first + count]
        blocks = [block_of(layout, slot) for slot in slots]
        sizes = [block.num_bytes for block in blocks]
        dtypes = {block.dtype for block in blocks}
        size, rows = sum(sizes), sum([block.row_bytes for block in blocks])
        if len(dtypes) != 1 or rows or size != buffer.nbytes:
            raise UsageError(
                f"part {layout.part}: expected {size} bytes of one dtype for the dense "
                f"slots {list(slots)}, without gradients of rows, got {buffer.nbytes}"
            )
        [dtype] = dtypes
        numbers = [one // dtype.itemsize for one in sizes]
        flat = torch.frombuffer(buffer, dtype=dtype)
        found.update(zip(slots, flat.split_with_sizes(numbers), strict=True))
        num_bytes, first = num_bytes + size, first + count
    return found, num_bytes


def read_early(
    layout: PartLayout, early: PushEarly, buffers: Sequence[Bytes]
) -> dict[int, torch.Tensor]:
    """Gradients that have come ahead of their push: ``{slot: gradient (n,)}``.

    Raises:
        UsageError: they do not fit the part, or come ahead of no push.
    """
    require_distinct("blocks", early.blocks)
    require_count(len(buffers), len(early.blocks))
    for slot, buffer in zip(early.blocks, buffers, strict=True):
        block = fitting_block(layout, slot, buffer)
        if block.row_bytes or block.codec is not None:
            raise UsageError(f"dense slot {slot} takes no gradient ahead of its push")
    return {
        slot: torch.from_numpy(buffer).view(layout.blocks[slot].dtype)
        for slot, buffer in zip(early.blocks, buffers, strict=True)
    }


def read_upload(
    layout: PartLayout, upload: Upload | SetValues, buffers: Sequence[Bytes]
) -> dict[int, Bytes]:
    """Values as a trainer has them: ``{slot: bytes}``, dense ones or of a dense table.

    Raises:
        UsageError: the upload does not fit the part, or the buffers not the upload.
    """
    require_distinct("slots", upload.slots)
    require_count(len(buffers), len(upload.slots))
    for slot, buffer in zip(upload.slots, buffers, strict=True):
        if slot in layout.row_slots:
            _require_rows(layout, slot, buffer)
        else:
            fitting_block(layout, slot, buffer)
    return dict(zip(upload.slots, buffers, strict=True))


def _require_rows(layout: PartLayout, slot: int, buffer: Bytes) -> None:
    """The rows of a slot of a dense table begin as they came."""
    for name, form in layout.tables.items():  # one, if it is dense
        if form.bounds is None:
            raise UsageError(f"table {name!r} has no rows until they are made, got some")
        first, behind = form.bounds[slot]
        require_bytes("rows of", name, buffer, (behind - first) * form.row_bytes)
