"""Where a batch of the user's data comes from: records in, batch out.

::

    tensor, tuple of them, TensorDataset ---> TensorSource        one gather per tensor
    Parquet, Csv, Libsvm, Text -------------> ItemSource, each in a file of its own
    a Hugging Face data set ----------------> HuggingFaceSource   columns, as it has them
    any other map-style data set, list -----> MapSource           items, then collate

`open_source` chooses. A source has a fingerprint: every trainer builds its own data set,
and two that differ must not train one stage.

Pure as far as the user's data set is; called by the trainer's own thread only.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from paceline.errors import DataError, UsageError

Records = NDArray[np.int64]
Collate = Callable[[list[Any]], Any]
ReadAhead = Literal["never", "again", "kept"]

_HASHED_WHOLE_BYTES = 64 << 20
_NUMBERS = {  # {dtype as Arrow has it: as torch has it}
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint16": torch.int32,
    "uint32": torch.int64,
    "uint64": torch.int64,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


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


class ItemSource(Source):
    """A source that a user makes: a map-style data set too, of single records.

    So `torch.utils.data.Subset` and ``collate_fn`` work on it.

    Args:
        transform: what `read` returns -> the batch that the loop gets; its errors pass
            through. Single records do not go through it.
    """

    def __init__(self, transform: Callable[[Any], Any] | None) -> None:
        self.transform = transform

    @abstractmethod
    def read(self, records: Records) -> Any:  # noqa: ANN401
        """A batch, before ``transform``, of the records at these indices (int64, 1-D)."""

    @abstractmethod
    def items(self, records: Records) -> list[Any]:
        """The same records one by one."""

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """What ``transform`` makes of what `read` returns."""
        found = self.read(records)
        return found if self.transform is None else self.transform(found)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if self.transform is not None:
            raise UsageError(
                f"{type(self).__name__}: a transform takes whole batches, so there are no "
                "single records; leave it out, and give collate_fn what it did"
            )
        records = np.asarray(indices, np.int64)
        size = len(self)
        outside = records[(records < -size) | (records >= size)]
        if outside.size:
            raise IndexError(f"record {outside[0]} of {size}")
        return self.items(np.where(records < 0, records + size, records))

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return self.__getitems__([index])[0]


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
        """What ``collate_fn`` makes of the items; an error of an item says which it was."""
        return self._collate(self._items(records.tolist()))

    def fingerprint(self) -> str:
        """Type of the data set, number of records, shapes and dtypes of the first.

        Reads the first record, without drawing from torch's random numbers. A source of
        ours says it better than its first record.
        """
        if isinstance(self._dataset, Source):
            return self._dataset.fingerprint()
        # A random augmentation must not shift the numbers that the user's loop will draw.
        with torch.random.fork_rng(devices=[]):
            first = _describe(self._dataset[0])
        kind = type(self._dataset)
        return f"{kind.__module__}.{kind.__qualname__} {first} x {len(self)}"

    def _items(self, indices: list[int]) -> list[Any]:
        index: object = indices
        try:
            if self._read_many is not None:
                found: list[Any] = self._read_many(indices)
                return found
            items = []
            for index in indices:
                items.append(self._dataset[index])
        except Exception as error:
            error.add_note(f"reading record {index} of {type(self._dataset).__name__}")
            raise
        return items


@final
class HuggingFaceSource(Source):
    """A Hugging Face ``datasets.Dataset``: columns of many records at one call.

    It is known by what it can do (``features``, ``with_format``, a list as an index);
    nothing is imported. A column whose feature is a number becomes a tensor of just that
    dtype, a missing number among them NaN if the dtype has it; arrays become tensors;
    anything else (text, lists, images) is a list, as the data set gives it.

    Raises:
        UsageError: no record.
    """

    def __init__(self, dataset: Any) -> None:  # noqa: ANN401  (duck typed)
        self._dataset = dataset
        self._dtypes = {  # {column: name of its dtype}
            name: str(getattr(feature, "dtype", type(feature).__name__))
            for name, feature in dataset.features.items()
        }
        _require_records(len(dataset))

    def __len__(self) -> int:
        return len(self._dataset)

    def batch(self, records: Records) -> dict[str, Any]:
        """``{column: tensor (n, ...) or list}``.

        Raises:
            DataError: a number is missing where the dtype has no NaN, or does not fit.
        """
        columns: Mapping[str, Any] = self._dataset[records.tolist()]
        return {name: self._column(name, column) for name, column in columns.items()}

    def fingerprint(self) -> str:
        """Columns with their dtypes, number of records; no record is read."""
        columns = ", ".join(f"{name}: {dtype}" for name, dtype in self._dtypes.items())
        return f"Hugging Face {{{columns}}} x {len(self)}"

    def _column(self, name: str, column: Any) -> Any:  # noqa: ANN401
        if isinstance(column, torch.Tensor):
            return column
        if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
            return torch.from_numpy(np.array(column))
        dtype = _NUMBERS.get(self._dtypes.get(name, ""))
        if dtype is None or not isinstance(column, list):
            return column
        if dtype.is_floating_point:
            column = [math.nan if value is None else value for value in column]
        try:
            return torch.tensor(column, dtype=dtype)
        except (OverflowError, RuntimeError, TypeError, ValueError) as error:
            raise DataError(
                f"Hugging Face data set: column {name!r}: expected {dtype}, got "
                f"{'a missing value' if None in column else error}"
            ) from error


def read_ahead_of(source: Source) -> ReadAhead:
    """How far a batch may be read before its turn, and nobody can tell.

    Of tensors a batch is gathered again when it is its turn: they may have been changed
    meanwhile, also through memory that they share. Files are not. What is of the user's
    own may draw random numbers, or look at what the loop changes.
    """
    if isinstance(source, TensorSource):
        return "again"
    is_files_alone = isinstance(source, ItemSource) and source.transform is None
    return "kept" if is_files_alone else "never"


def open_source(dataset: Any, collate_fn: Collate | None = None) -> Source:  # noqa: ANN401  (see MapSource)
    """The source of what a user gave to `Session.batches`.

    A tensor, a tuple of tensors or arrays (its columns), and a `TensorDataset` are
    gathered by index, unless there is a ``collate_fn``, which wants single items. A list
    is a map-style data set: its items are records, tensors or not. A `paceline.data`
    source is itself, and with a ``collate_fn`` a data set of its records.

    Raises:
        UsageError: not map-style, a mapping, unequal lengths, empty, or both a
            ``collate_fn`` and a transform.
    """
    if isinstance(dataset, Source) and collate_fn is None:
        return dataset
    if isinstance(dataset, ItemSource) and dataset.transform is not None:
        raise UsageError(
            f"batches: {type(dataset).__name__} has a transform, which takes whole "
            "batches, and collate_fn takes single records: give one of the two"
        )
    if collate_fn is None and _is_hugging_face(dataset):
        return HuggingFaceSource(dataset)
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


def _is_hugging_face(dataset: object) -> bool:
    return (
        isinstance(getattr(dataset, "features", None), Mapping)
        and callable(getattr(dataset, "with_format", None))
        and hasattr(dataset, "__getitem__")
        and hasattr(dataset, "__len__")
    )


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
