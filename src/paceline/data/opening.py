"""Which source reads what a user gave to a session: by what it is, never by trying.

Pure.
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from paceline.data.map_style import Collate, MapSource, PickedSource, leaves
from paceline.data.not_data import as_tensor, refuse_look_alikes, require_map_style
from paceline.data.source import HuggingFaceSource, ItemSource, Source, TensorSource
from paceline.errors import UsageError


def open_source(dataset: Any, collate_fn: Collate | None = None) -> Source:  # noqa: ANN401  (whatever a user calls a data set)
    """The source of what a user gave to `Session.batches`.

    A tensor, a tuple or a dictionary of tensors or arrays (its columns), and a
    `TensorDataset` are gathered by index, unless there is a ``collate_fn``, which wants
    single items. A list is a map-style data set: its items are records, tensors or not. A
    `paceline.data` source is itself, and with a ``collate_fn`` a data set of its records.
    A `Subset` is read as what it is of; so is a `ConcatDataset` of sources.

    Raises:
        UsageError: not map-style, unequal lengths, empty, both a ``collate_fn`` and a
            transform, or something else that says itself what to give instead.
    """
    refuse_look_alikes(dataset)
    if isinstance(dataset, Source) and collate_fn is None:
        return dataset
    if isinstance(dataset, ItemSource) and dataset.transform is not None:
        raise UsageError(
            f"batches: {type(dataset).__name__} has a transform, which takes whole "
            "batches, and collate_fn takes single records: give one of the two"
        )
    if type(dataset) is Subset:
        return _open_subset(dataset, collate_fn)
    if type(dataset) is ConcatDataset:
        return MapSource(dataset, collate_fn or _joining(dataset))
    if collate_fn is None and _is_hugging_face(dataset):
        return HuggingFaceSource(dataset)
    columns = _as_columns(dataset)
    if columns is not None:
        return _open_columns(columns, collate_fn)
    require_map_style(dataset)
    return MapSource(dataset, collate_fn)


@final
class _Rows:
    """A dictionary of columns as a map-style data set of dictionaries."""

    def __init__(self, columns: Mapping[object, torch.Tensor]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, index: int) -> dict[object, torch.Tensor]:
        return {name: column[index] for name, column in self._columns.items()}


def _open_subset(dataset: "Subset[Any]", collate_fn: Collate | None) -> Source:
    below = open_source(dataset.dataset, collate_fn)
    if isinstance(below, MapSource):
        return MapSource(Subset(below.dataset, dataset.indices), below.collate)
    return PickedSource(below, dataset.indices)


def _joining(dataset: "ConcatDataset[Any]") -> Collate | None:
    """How items of the sources below become a batch; None if they are no sources."""
    found = list(leaves(dataset))
    sources = [leaf for leaf in found if isinstance(leaf, ItemSource)]
    if not sources:
        return None
    kinds = sorted({type(leaf).__name__ for leaf in found})
    if len(kinds) > 1:
        raise UsageError(
            "batches: expected a ConcatDataset of sources of one kind, got one of "
            f"{', '.join(kinds)}; a collate_fn can join their records"
        )
    if any(source.transform is not None for source in sources):
        raise UsageError(
            f"batches: {kinds[0]} in a ConcatDataset has a transform, which takes whole "
            f"batches of one source: give {kinds[0]} all paths as one list instead"
        )
    return sources[0].join


_Columns = torch.Tensor | tuple[torch.Tensor, ...] | dict[object, torch.Tensor]


def _as_columns(dataset: object) -> _Columns | None:
    """The tensors as they were given, bare, as a tuple or by name; None if it is other."""
    if isinstance(dataset, torch.Tensor | np.ndarray):
        return as_tensor(dataset, "data")
    # A subclass may have an item access of its own.
    if type(dataset) is TensorDataset:
        return tuple(dataset.tensors)
    if isinstance(dataset, Mapping):
        if not dataset or not all(_is_column(value) for value in dataset.values()):
            return None
        return {k: as_tensor(value, f"column {k!r}") for k, value in dataset.items()}
    # A list is records: that its items are tensors does not make them columns.
    if not isinstance(dataset, tuple):
        return None
    columns = [_is_column(item) for item in dataset]
    if any(columns) and not all(columns):
        kinds = ", ".join(type(item).__name__ for item in dataset)
        raise UsageError(f"batches: expected a tuple of tensors, got one of ({kinds})")
    if not dataset or not all(columns):
        return None
    return tuple(as_tensor(item, f"column {i}") for i, item in enumerate(dataset))


def _open_columns(columns: _Columns, collate_fn: Collate | None) -> Source:
    """The source of columns; with a ``collate_fn`` that of their records."""
    if isinstance(columns, torch.Tensor):
        return _gathered(TensorSource((columns,), bare=True), columns, collate_fn)
    if isinstance(columns, dict):
        source = TensorSource((*columns.values(),), names=(*columns,))
        return _gathered(source, _Rows(columns), collate_fn)
    return _gathered(TensorSource(columns), TensorDataset(*columns), collate_fn)


def _gathered(source: Source, rows: object, collate_fn: Collate | None) -> Source:
    return source if collate_fn is None else MapSource(rows, collate_fn)


def _is_column(value: object) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray)


def _is_hugging_face(dataset: object) -> bool:
    return (
        isinstance(getattr(dataset, "features", None), Mapping)
        and callable(getattr(dataset, "with_format", None))
        and hasattr(dataset, "__getitem__")
        and hasattr(dataset, "__len__")
    )
