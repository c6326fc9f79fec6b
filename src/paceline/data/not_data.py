"""What is no data set, though it looks like one: refused with what to give instead.

Nothing is imported to know a foreign object: the module that its class comes from says it.

Pure.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)

from paceline.errors import UsageError

_FRAMES = frozenset({"pandas", "polars", "pyarrow", "cudf", "modin", "dask"})
_READERS = {  # {ending of a path: what reads such a file}
    ".csv": "Csv",
    ".tsv": "Csv",
    ".parquet": "Parquet",
    ".svm": "Libsvm",
    ".libsvm": "Libsvm",
    ".txt": "Text",
}
_NAMED = 8  # columns, keys in a message


def refuse_look_alikes(dataset: Any) -> None:  # noqa: ANN401  (whatever a user calls a data set)
    """Let pass what may have records.

    Raises:
        UsageError: a loader, a frame, a path, a list of columns; says what to give.
    """
    if isinstance(dataset, DataLoader):
        raise UsageError(_of_loader(dataset))
    if _root(dataset) in _FRAMES:
        raise UsageError(_of_frame(dataset))
    if _root(dataset) == "scipy":
        raise UsageError(
            f"batches: a {type(dataset).__name__} of scipy is not read by records; give "
            "torch.from_numpy(it.toarray()), or a file in the format of LIBSVM to "
            "paceline.data.Libsvm"
        )
    if isinstance(dataset, str | bytes | os.PathLike):
        raise UsageError(_of_path(dataset))
    if isinstance(dataset, list) and _are_columns(dataset):
        raise UsageError(
            f"batches: a list is a data set of its items, so these are {len(dataset)} "
            f"records, tensors of {len(dataset[0])} entries each; if they are columns, "
            "give a tuple of them: session.batches((X, Y), ...); if they are records, "
            "torch.stack(them)"
        )


def require_map_style(dataset: object) -> None:
    """Let pass what has a length and items.

    Raises:
        UsageError: a mapping, a stream or a generator; says what to give.
    """
    name = type(dataset).__name__
    if isinstance(dataset, Mapping):
        keys = ", ".join(repr(key) for key in list(dataset)[:_NAMED])
        raise UsageError(
            f"batches: {name} is a mapping, not a data set; choose one of its values "
            f"(it has {keys or 'none'}), or give tensors or arrays of one length by name"
        )
    is_sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if isinstance(dataset, IterableDataset) or not is_sized:
        streamed = (
            " (load it without streaming=True)" if _root(dataset) == "datasets" else ""
        )
        raise UsageError(
            "batches: expected a map-style data set (__getitem__ and __len__), got "
            f"{name}{streamed}; a lost task must be read again, so records need an index: "
            "put an iterable into a list or a file first"
        )


def as_tensor(value: torch.Tensor | np.ndarray[Any, Any], what: str) -> torch.Tensor:
    """An array as the tensor that it can be, without a copy where there is a way.

    Raises:
        UsageError: it holds no numbers.
    """
    if isinstance(value, torch.Tensor):
        return value
    if value.dtype.kind not in "biufc":
        raise UsageError(
            f"batches: {what}: expected an array of numbers, got {value.dtype}; number "
            "what is text (numpy.unique(it, return_inverse=True)), leave it out, or write "
            "it to a file and read that with paceline.data.Parquet or Csv"
        )
    native = value.astype(value.dtype.newbyteorder("="), copy=False)
    if not native.flags.writeable or any(stride < 0 for stride in native.strides):
        native = native.copy()  # torch takes neither without a warning
    try:
        return torch.from_numpy(native)
    except TypeError as error:
        raise UsageError(f"batches: {what}: torch has no {value.dtype}: {error}") from error


def _of_loader(loader: "DataLoader[Any]") -> str:
    size = loader.batch_size
    arguments = [f"batch_size={'...' if size is None else size}"]
    if size is not None and isinstance(loader.sampler, SequentialSampler):
        arguments.append("shuffle=False")
    if loader.collate_fn not in (default_collate, default_convert):
        arguments.append("collate_fn=loader.collate_fn")
    if loader.num_workers:
        arguments.append(f"workers={loader.num_workers}")
    text = (
        "batches: a DataLoader draws and cuts batches itself, which trainers do together "
        "here; give its data set: session.batches(loader.dataset, "
        f"{', '.join(arguments)})"
    )
    if size is None or not isinstance(loader.sampler, SequentialSampler | RandomSampler):
        sampler = loader.batch_sampler if size is None else loader.sampler
        text += (
            f"; its {type(sampler).__name__} is left out: which records there are, a "
            "Subset says"
        )
    return text


def _of_frame(frame: Any) -> str:  # noqa: ANN401  (of a library that is not imported)
    kind = f"a {type(frame).__name__} of {_root(frame)}"
    columns = getattr(frame, "column_names", getattr(frame, "columns", None))
    if columns is None or callable(columns):
        return f"batches: {kind} is not read by records; give its array: it.to_numpy()"
    names = [str(name) for name in columns]
    shown = repr(names[:_NAMED]) if len(names) <= _NAMED else "[...]"
    return (
        f"batches: {kind} is not read by records; give its columns, and batches are "
        f"dictionaries of tensors: {{name: frame[name].to_numpy() for name in {shown}}}; "
        "text is no tensor: write a frame that has it to a file and read that with "
        "paceline.data.Parquet"
    )


def _of_path(path: "str | bytes | os.PathLike[Any]") -> str:
    told = os.fsdecode(path)
    reader = _READERS.get(os.path.splitext(told)[1], "")
    which = f"paceline.data.{reader}({told!r})" if reader else ""
    return (
        f"batches: {told!r} is a text, not a data set; give what reads that file: "
        f"{which or 'paceline.data.Csv, Parquet, Libsvm or Text'}"
    )


def _are_columns(items: list[Any]) -> bool:
    """Whether a list of tensors is meant as columns: few of them, and all of them long.

    Images in a list have one shape too; but there are more of them than rows in one.
    """
    if len(items) < 2 or not all(isinstance(i, torch.Tensor | np.ndarray) for i in items):
        return False
    if any(item.ndim == 0 for item in items):
        return False
    lengths = {len(item) for item in items}
    return len(lengths) == 1 and len(items) <= _NAMED and len(items) < lengths.pop()


def _root(value: object) -> str:
    """The package that a value's class comes from."""
    return type(value).__module__.partition(".")[0]
