"""Where a batch of the user's data comes from: records in, batch out.

`paceline.data.opening` chooses. A source has a fingerprint: every trainer builds its own
data set, and two that differ must not train one stage.

Pure as far as the user's data set is; called by the trainer's own thread only.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray

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

    def glance(self, records: Records) -> Any:  # noqa: ANN401  (as `batch`)
        """The same before its turn, for who looks at little of it."""
        return self.batch(records)

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

    @abstractmethod
    def join(self, items: list[Any]) -> Any:  # noqa: ANN401
        """What `read` would have returned for the records of these items.

        Raises:
            DataError: a number has another dtype in one item than in another.
        """

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
class Glance(Mapping[object, torch.Tensor]):
    """A batch of tensors of which each is gathered when somebody asks for it.

    ``tensors``: by name or number. One that cannot be gathered is not there.
    """

    def __init__(self, tensors: Mapping[object, torch.Tensor], index: torch.Tensor) -> None:
        self._tensors, self._index = tensors, index
        self._found: dict[object, torch.Tensor] = {}

    def __getitem__(self, name: object) -> torch.Tensor:
        if name not in self._found:
            try:
                self._found[name] = _gather(self._tensors[name], self._index)
            except (IndexError, RuntimeError) as error:  # raised when the batch is read
                raise KeyError(name) from error
        return self._found[name]

    def __iter__(self) -> Iterator[object]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


@final
class TensorSource(Source):
    """Tensors whose first dimension is the record: batches are gathered by index.

    Args:
        tensors: at least one, all of the same first dimension.
        bare: yield the first tensor itself instead of a tuple of one.
        names: of the tensors: yield a dictionary instead of a tuple.

    Raises:
        UsageError: no record, a tensor without dimensions or a sparse one, or unequal
            lengths.
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        bare: bool = False,
        names: Sequence[object] = (),
    ) -> None:
        self._tensors = tuple(tensor.detach() for tensor in tensors)
        self._bare, self._names = bare, tuple(names)
        self._by_name = dict(zip(names or range(len(tensors)), self._tensors, strict=True))
        if any(tensor.layout != torch.strided for tensor in self._tensors):
            raise UsageError(
                "batches: a sparse tensor cannot be read by records; give the dense one "
                "(tensor.to_dense()), or a file in the format of LIBSVM"
            )
        if any(tensor.dim() == 0 for tensor in self._tensors):
            raise UsageError("batches: a tensor without dimensions has no records")
        lengths = [len(tensor) for tensor in self._tensors]
        if len(set(lengths)) != 1:
            of = f" of {', '.join(map(str, self._names))}" if self._names else ""
            raise UsageError(
                "batches: expected tensors of one length (their first dimension is the "
                f"record), got lengths {lengths}{of}"
            )
        require_records(lengths[0])

    def __len__(self) -> int:
        return len(self._tensors[0])

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """Fresh tensors ``(len(records), ...)``: one, a tuple, or a dictionary."""
        index = torch.from_numpy(records)
        if self._bare:
            return _gather(self._tensors[0], index)
        found = tuple([_gather(tensor, index) for tensor in self._tensors])
        return dict(zip(self._names, found, strict=True)) if self._names else found

    def glance(self, records: Records) -> torch.Tensor | Glance:
        """The same, of which tensors are gathered as they are asked for."""
        index = torch.from_numpy(records)
        if self._bare:
            return _gather(self._tensors[0], index)
        return Glance(self._by_name, index)

    def fingerprint(self) -> str:
        """Number of records, shape and dtype of each, and a hash of the bytes.

        A tensor beyond 64 MiB is hashed by evenly spaced records, about 64 MiB of them.
        """
        digest = xxhash.xxh3_64()
        for tensor in self._tensors:
            step = math.ceil(tensor.nbytes / _HASHED_WHOLE_BYTES) or 1
            sample = tensor[::step].cpu().contiguous().reshape(-1)
            digest.update(sample.view(torch.uint8).numpy().data)
        described = [describe_item(tensor[0]) for tensor in self._tensors]
        if self._names:
            pairs = zip(self._names, described, strict=True)
            described = [f"{name}: {told}" for name, told in pairs]
        first = ", ".join(described)
        return f"tensors ({first}) x {len(self)}, xxh3 {digest.hexdigest()}"


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
        require_records(len(dataset))

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


def require_records(count: int) -> None:
    """Refuse data without any record with a `UsageError`."""
    if count < 1:
        raise UsageError("batches: the data set is empty; expected at least one record")


def _gather(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return tensor.index_select(0, index if tensor.is_cpu else index.to(tensor.device))


def describe_item(item: object) -> str:
    """Structure, shapes and dtypes of a record, no values: ``(int64[14], float32[])``."""
    if isinstance(item, torch.Tensor | np.ndarray | np.generic):
        dtype = str(item.dtype).removeprefix("torch.")
        return f"{dtype}[{','.join(str(size) for size in item.shape)}]"
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{key}: {describe_item(item[key])}" for key in item) + "}"
    if isinstance(item, tuple | list):
        return "(" + ", ".join(describe_item(part) for part in item) + ")"
    return type(item).__name__
