"""Where a batch of the user's data comes from: records in, batch out.

::

    tensor, tuple of them, TensorDataset ---> TensorSource   one gather per tensor
    any other map-style data set, list -----> MapSource      items, then collate

`open_source` chooses. A source has a fingerprint: every trainer builds its own data set,
and two that differ must not train one stage.

Pure as far as the user's data set is; called by the trainer's own thread only.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from paceline.errors import UsageError

Records = NDArray[np.int64]
Collate = Callable[[list[Any]], Any]

_HASHED_WHOLE_BYTES = 64 << 20


class Source(ABC):
    """Records that can be read in any order."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of records, at least one."""

    @abstractmethod
    def batch(self, records: Records) -> Any:  # noqa: ANN401  (what the user's loop takes)
        """One batch of the records at these indices (int64, 1-D), in this order."""

    @abstractmethod
    def fingerprint(self) -> str:
        """One line that differs if two trainers' data differ in a way that would matter."""


@final
class TensorSource(Source):
    """Tensors whose first dimension is the record: batches are gathered by index.

    Args:
        tensors: at least one, all of the same first dimension.
        bare: yield the first tensor itself instead of a tuple of one.

    Raises:
        UsageError: no record, a tensor without dimensions, or unequal lengths.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], bare: bool = False) -> None:
        self._tensors = tuple(tensor.detach() for tensor in tensors)
        self._bare = bare
        if any(tensor.dim() == 0 for tensor in self._tensors):
            raise UsageError("batches: a tensor without dimensions has no records")
        lengths = [len(tensor) for tensor in self._tensors]
        if len(set(lengths)) != 1:
            raise UsageError(
                "batches: expected tensors of one length (their first dimension is the "
                f"record), got lengths {lengths}"
            )
        _require_records(lengths[0])

    def __len__(self) -> int:
        return len(self._tensors[0])

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """A tuple of fresh tensors ``(len(records), ...)``, or with ``bare`` the tensor."""
        index = torch.from_numpy(records)
        if self._bare:
            return _gather(self._tensors[0], index)
        return tuple(_gather(tensor, index) for tensor in self._tensors)

    def fingerprint(self) -> str:
        """Number of records, shape and dtype of each, and a hash of the bytes.

        A tensor beyond 64 MiB is hashed by evenly spaced records, about 64 MiB of them.
        """
        digest = xxhash.xxh3_64()
        for tensor in self._tensors:
            step = math.ceil(tensor.nbytes / _HASHED_WHOLE_BYTES) or 1
            sample = tensor[::step].cpu().contiguous().reshape(-1)
            digest.update(sample.view(torch.uint8).numpy().data)
        first = ", ".join(_describe(tensor[0]) for tensor in self._tensors)
        return f"tensors ({first}) x {len(self)}, xxh3 {digest.hexdigest()}"


@final
class MapSource(Source):
    """Any map-style data set, read by ``__getitems__`` if it has that.

    Args:
        dataset: its items are what its own code makes of them; its errors pass through.
        collate_fn: list of items -> batch; torch's `default_collate` if None.

    Raises:
        UsageError: no record.
    """

    def __init__(self, dataset: Any, collate_fn: Collate | None = None) -> None:  # noqa: ANN401  (a user's data set: duck typed, as torch does)
        self._dataset = dataset
        self._collate = collate_fn or default_collate
        self._read_many = getattr(dataset, "__getitems__", None)
        _require_records(len(dataset))

    def __len__(self) -> int:
        return len(self._dataset)

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """What ``collate_fn`` makes of the items."""
        indices = records.tolist()
        if self._read_many is None:
            return self._collate([self._dataset[index] for index in indices])
        return self._collate(self._read_many(indices))

    def fingerprint(self) -> str:
        """Type of the data set, number of records, shapes and dtypes of the first.

        Reads the first record, without drawing from torch's random numbers.
        """
        # A random augmentation must not shift the numbers that the user's loop will draw.
        with torch.random.fork_rng(devices=[]):
            first = _describe(self._dataset[0])
        kind = type(self._dataset)
        return f"{kind.__module__}.{kind.__qualname__} {first} x {len(self)}"


def open_source(dataset: Any, collate_fn: Collate | None = None) -> Source:  # noqa: ANN401  (see MapSource)
    """The source of what a user gave to `Session.batches`.

    A tensor, a tuple of tensors or arrays (its columns), and a `TensorDataset` are
    gathered by index, unless there is a ``collate_fn``, which wants single items. A list
    is a map-style data set: its items are records, tensors or not.

    Raises:
        UsageError: not map-style, a mapping, unequal lengths, or empty.
    """
    tensors, bare = _as_tensors(dataset)
    if not tensors:
        _require_map_style(dataset)
        return MapSource(dataset, collate_fn)
    source = TensorSource(tensors, bare)
    if collate_fn is None:
        return source
    return MapSource(tensors[0] if bare else TensorDataset(*tensors), collate_fn)


def _as_tensors(dataset: object) -> tuple[tuple[torch.Tensor, ...], bool]:
    """The tensors and whether it was a bare one; no tensors if it is something else."""
    if isinstance(dataset, torch.Tensor | np.ndarray):
        return (torch.as_tensor(dataset),), True
    # A subclass may have an item access of its own.
    if type(dataset) is TensorDataset:
        return tuple(dataset.tensors), False
    # A list is records: that its items are tensors does not make them columns.
    if not isinstance(dataset, tuple):
        return (), False
    columns = [isinstance(item, torch.Tensor | np.ndarray) for item in dataset]
    if any(columns) and not all(columns):
        kinds = ", ".join(type(item).__name__ for item in dataset)
        raise UsageError(f"batches: expected a tuple of tensors, got one of ({kinds})")
    if not all(columns):
        return (), False
    return tuple(torch.as_tensor(item) for item in dataset), False


def _require_map_style(dataset: object) -> None:
    name = type(dataset).__name__
    if isinstance(dataset, Mapping):
        raise UsageError(
            f"batches: {name} is a mapping, not a data set; choose one of its values"
        )
    is_sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if isinstance(dataset, IterableDataset) or not is_sized:
        raise UsageError(
            "batches: expected a map-style data set (__getitem__ and __len__), got "
            f"{name}; a lost task must be read again, so records need an index: put an "
            "iterable into a list or a file first"
        )


def _require_records(count: int) -> None:
    if count < 1:
        raise UsageError("batches: the data set is empty; expected at least one record")


def _gather(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return tensor.index_select(0, index.to(tensor.device))


def _describe(item: object) -> str:
    """Structure, shapes and dtypes of a record, no values: ``(int64[14], float32[])``."""
    if isinstance(item, torch.Tensor | np.ndarray | np.generic):
        dtype = str(item.dtype).removeprefix("torch.")
        return f"{dtype}[{','.join(str(size) for size in item.shape)}]"
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{key}: {_describe(item[key])}" for key in item) + "}"
    if isinstance(item, tuple | list):
        return "(" + ", ".join(_describe(part) for part in item) + ")"
    return type(item).__name__
