"""Tensors as bytes: what travels is memory, whatever its dtype.

Pure; any thread may call.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, final

import msgspec
import torch

from paceline.messages.shared import Block
from paceline.params.sparse import Int64s
from paceline.trainer.encoding.gpu_staging import Copies, CopiesOf, Home, copies_of
from paceline.transport.frames import ByteArray

# For `map`: parts of many tensors are looked at several times a step.
_BESIDE: Final = attrgetter("beside")
_COUNT: Final = torch.Tensor.numel
_IS_CONTIGUOUS: Final = torch.Tensor.is_contiguous
_IS_CPU: Final = attrgetter("is_cpu")
_KIND: Final = attrgetter("requires_grad", "layout")
_PLACE: Final = torch.Tensor.data_ptr


def byte_array(tensor: torch.Tensor) -> ByteArray:
    """The bytes of a contiguous CPU tensor: the same memory, flat."""
    assert tensor.is_contiguous()
    # Each call of torch that is left out is a microsecond or two of a step.
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dim() != 1:
        tensor = tensor.view(-1)
    # Bytes, not elements: NumPy has no bfloat16.
    array: ByteArray = tensor.view(torch.uint8).numpy()
    return array


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The values on their device, dense and contiguous: its memory where it is so."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.contiguous()


def are_plain(tensors: Collection[torch.Tensor]) -> bool:
    """Whether `plain` would say the same of all of them, which takes longer to find out."""
    is_strided = {*map(_KIND, tensors)} <= {(False, torch.strided)}
    return is_strided and all(map(_IS_CONTIGUOUS, tensors))


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The values on the CPU, dense and contiguous: the tensor itself where it is so."""
    return plain(tensor).cpu()


# Numbers of a tensor that are copied faster than torch makes it a view.
SMALL: Final = 1 << 14


Stretch = tuple[ByteArray, int, int]
"""Bytes that lie in memory which others may share: where they start and stop in it."""


class Packed(msgspec.Struct, frozen=True):
    """Tensors of the host as bytes: ``stretches``.

    ``copies``: all of those whose numbers were copied; ``own``: the others, whose bytes
    are their own memory.
    """

    stretches: dict[int, Stretch]
    copies: list[torch.Tensor]
    own: dict[int, torch.Tensor]


def packed(tensors: Mapping[int, torch.Tensor]) -> Packed:
    """Contiguous tensors as bytes: small ones of a dtype are copied by one call."""
    stretches: dict[int, Stretch] = {}
    own: dict[int, torch.Tensor] = {}
    copies: list[torch.Tensor] = []
    small: dict[torch.dtype, dict[int, int]] = {}  # {dtype: {index: numbers}}
    counts = map(_COUNT, tensors.values())
    for (index, tensor), count in zip(tensors.items(), counts, strict=True):
        if count <= SMALL:
            small.setdefault(tensor.dtype, {})[index] = count
        else:
            own[index] = tensor
    for together in small.values():
        found = list(map(tensors.__getitem__, together))
        if len(found) == 1:
            own.update(zip(together, found, strict=True))
            continue
        flat = torch._C._nn.flatten_dense_tensors(found)
        copies.append(flat)
        array, size, start = byte_array(flat), flat.element_size(), 0
        for index, count in together.items():
            stop = start + count * size
            stretches[index] = array, start, stop
            start = stop
    for index, tensor in own.items():
        stretches[index] = byte_array(tensor), 0, tensor.nbytes
    return Packed(stretches, copies, own)


@final
class ParameterMemory:
    """Where a parameter's values are read from and land.

    A contiguous CPU parameter is its own memory; any other has a copy beside it, which
    `settle` brings home: the user may move it to another device at any time. So has every
    one whose values may come at any time (``apart``).

    Attributes:
        beside: the copy, once there is one.
        is_beside_whole: whether all of that is to be brought home, or no more than rows.
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
        self.beside: Home | None = None
        self.is_beside_whole = True
        self._rows: list[torch.Tensor] = []

    def read(self, block: Block) -> ByteArray:
        """The bytes of a block's values now."""
        values = on_cpu(self._parameter)
        return cut(byte_array(values), block, values.element_size())

    def place(self, block: Block) -> ByteArray:
        """Where a block's values land; `settle` afterwards."""
        self.is_beside_whole = True
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
        if self.beside is not None:
            self._rows.append(numbers + block.start // dim)

    def _place(self, block: Block) -> ByteArray:
        parameter = self._parameter
        size, copies = parameter.element_size(), self._copies()
        is_own = parameter.device.type == "cpu" and parameter.is_contiguous()
        if is_own and copies is None and not self.is_apart:
            if self._array is None or self._where != parameter.data_ptr():
                self._array, self._where = byte_array(parameter), parameter.data_ptr()
                self.beside = None
        elif self.beside is None:
            self.beside = Home(parameter, copies)
            self._array, self._where = byte_array(self.beside.tensor), 0
        else:
            self.beside.wait_free()
        assert self._array is not None
        return cut(self._array, block, size)

    def _copies(self) -> Copies | None:
        device = self._parameter.device
        if self._copies_of is not None:
            return self._copies_of(device)
        return None if device.type == "cpu" else copies_of(device)

    def settle(self) -> None:
        """Values have landed: autograd knows, and a copy beside is brought home."""
        beside, rows = self.beside, self._rows
        if beside is not None and self.is_beside_whole:
            beside.bring(self._parameter, self._copies())
        elif beside is not None and rows:
            numbers, device = torch.cat(rows), self._parameter.device
            with torch.no_grad():
                values = beside.tensor.index_select(0, numbers).to(device)
                self._parameter.index_copy_(0, numbers.to(device), values)
        elif beside is None:
            torch.autograd.graph.increment_version(self._parameter)
        self.settled()

    def settled(self) -> None:
        """Nothing is to be brought home any more."""
        self.is_beside_whole, self._rows = False, []


@final
class PartMemory:
    """Where the values of a part's parameters are read from and land.

    Attributes:
        is_apart: whether values land beside the parameters; see `ParameterMemory`.
    """

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], *, apart: bool = False
    ) -> None:
        self._parameters, self.is_apart = tuple(parameters), apart
        self._memory = [ParameterMemory(one, apart=apart) for one in parameters]
        self._turns = 0  # of `let_land`

    def __getitem__(self, index: int) -> ParameterMemory:
        """Of one parameter."""
        return self._memory[index]

    def let_land(self, *, apart: bool) -> None:
        """From now on, values land beside the parameters or not."""
        self.is_apart = apart
        self._turns += 1
        for memory in self._memory:
            memory.is_apart = apart

    def where(self) -> list[int] | None:
        """Where values of the parameters land, if all are on the host.

        As long as that stays, what `ParameterMemory.place` has returned stays right.
        """
        found = self._parameters
        if not all(map(_IS_CPU, found)):
            return None
        if self.is_apart:
            return [-self._turns]  # memory beside them, which stays until the next turn
        is_own = all(map(_IS_CONTIGUOUS, found))
        return list(map(_PLACE, found)) if is_own else None

    def land_again(self, blocks: Iterable[Block]) -> None:
        """What `ParameterMemory.place` has returned for these is written once more."""
        if self.is_apart:
            for block in blocks:
                self._memory[block.parameter].is_beside_whole = True

    def settle(self) -> None:
        """See `ParameterMemory.settle`: values of all may have landed."""
        if not any(map(_BESIDE, self._memory)):
            torch.autograd.graph.increment_version(self._parameters)
            return
        came = {n: one.beside for n, one in enumerate(self._memory) if one.is_beside_whole}
        homes = {n: home for n, home in came.items() if home and self._parameters[n].is_cpu}
        if homes:  # one call, where each memory would make its own
            sources = [home.tensor for home in homes.values()]
            with torch.no_grad():
                torch._foreach_copy_([self._parameters[n] for n in homes], sources)
        for n, memory in enumerate(self._memory):
            if n in homes:
                memory.settled()
            else:
                memory.settle()


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
