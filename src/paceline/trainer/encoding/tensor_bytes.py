"""Tensors as bytes: what travels is memory, whatever its dtype.

Pure; any thread may call.
"""

import math
from collections.abc import Sequence
from typing import final

import torch

from paceline.messages.shared import Block
from paceline.params.sparse import Int64s
from paceline.trainer.encoding.gpu_staging import Copies, CopiesOf, Home, copies_of
from paceline.transport.frames import ByteArray


def byte_array(tensor: torch.Tensor) -> ByteArray:
    """The bytes of a contiguous CPU tensor: the same memory, flat."""
    assert tensor.is_contiguous()
    # Bytes, not elements: NumPy has no bfloat16.
    flat = tensor.detach().view(-1)
    array: ByteArray = flat.view(torch.uint8).numpy()
    return array


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The values on their device, dense and contiguous: its memory where it is so."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.contiguous()


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The values on the CPU, dense and contiguous: the tensor itself where it is so."""
    return plain(tensor).cpu()


@final
class ParameterMemory:
    """Where a parameter's values are read from and land.

    A contiguous CPU parameter is its own memory; any other has a copy beside it, which
    `settle` brings home: the user may move it to another device at any time. So has every
    one whose values may come at any time (``apart``).
    """

    def __init__(
        self,
        parameter: torch.nn.Parameter,
        *,
        apart: bool = False,
        copies_of: CopiesOf | None = None,
    ) -> None:
        self.is_apart = apart
        self._parameter, self._copies_of = parameter, copies_of  # None: the CPU needs none
        self._where = 0
        self._array: ByteArray | None = None
        self._beside: Home | None = None
        self._is_beside_whole = True  # whether all of it is to be brought home, or `_rows`
        self._rows: list[torch.Tensor] = []

    def read(self, block: Block) -> ByteArray:
        """The bytes of a block's values now."""
        values = on_cpu(self._parameter)
        return cut(byte_array(values), block, values.element_size())

    def place(self, block: Block) -> ByteArray:
        """Where a block's values land; `settle` afterwards."""
        self._is_beside_whole = True
        return self._place(block)

    def put_rows(self, block: Block, rows: Int64s, values: ByteArray) -> None:
        """Write some rows of a block of a parameter (rows, dim); `settle` afterwards.

        ``rows``: int64 (k,), distinct, counted from the first of the block, which has whole
        rows. ``values``: the bytes of the rows (k, dim).
        """
        if not len(rows):
            return
        dim = self._parameter.shape[1]
        place = torch.from_numpy(self._place(block)).view(self._parameter.dtype)
        numbers = torch.from_numpy(rows)
        source = torch.from_numpy(values).view(self._parameter.dtype)
        place.view(-1, dim).index_copy_(0, numbers, source.view(-1, dim))
        if self._beside is not None:
            self._rows.append(numbers + block.start // dim)

    def _place(self, block: Block) -> ByteArray:
        parameter = self._parameter
        size, copies = parameter.element_size(), self._copies()
        is_own = parameter.device.type == "cpu" and parameter.is_contiguous()
        if is_own and copies is None and not self.is_apart:
            if self._array is None or self._where != parameter.data_ptr():
                self._array, self._where = byte_array(parameter), parameter.data_ptr()
                self._beside = None
        elif self._beside is None:
            self._beside = Home(parameter, copies)
            self._array, self._where = byte_array(self._beside.tensor), 0
        else:
            self._beside.wait_free()
        assert self._array is not None
        return cut(self._array, block, size)

    def _copies(self) -> Copies | None:
        device = self._parameter.device
        if self._copies_of is not None:
            return self._copies_of(device)
        return None if device.type == "cpu" else copies_of(device)

    def settle(self) -> None:
        """Values have landed: autograd knows, and a copy beside is brought home."""
        beside, rows = self._beside, self._rows
        if beside is not None and self._is_beside_whole:
            beside.bring(self._parameter, self._copies())
        elif beside is not None and rows:
            numbers, device = torch.cat(rows), self._parameter.device
            with torch.no_grad():
                values = beside.tensor.index_select(0, numbers).to(device)
                self._parameter.index_copy_(0, numbers.to(device), values)
        elif beside is None:
            torch.autograd.graph.increment_version(self._parameter)
        self._is_beside_whole, self._rows = False, []


def cut(array: ByteArray, block: Block, size: int) -> ByteArray:
    """The bytes of a block within those of its parameter; ``size`` is one element's."""
    return array[block.start * size : block.stop * size]


def all_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether no element is infinite or NaN.

    One pass that sums; only a sum that is not finite (it may also have overflowed) is
    looked at element by element.
    """
    for tensor in tensors:
        if tensor.is_sparse:
            tensor = tensor._values()
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue  # a sum of whole numbers takes many times as long, and tells nothing
        is_suspect = not math.isfinite(tensor.sum().item())
        if is_suspect and not bool(torch.isfinite(tensor).all()):
            return False
    return True
