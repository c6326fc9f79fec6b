"""Map-style data sets of the user's: items by index, then a batch of them.

::

    indices --Subset: of its indices, ConcatDataset: by data set--> indices of each data set
    each data set --__getitems__, else __getitem__--> items --collate--> batch

`torch.utils.data.Subset` and `ConcatDataset` are seen through, so that what lies below is
asked for many records at once, and told by its own fingerprint.

Pure as far as the user's data set is; called by the trainer's own thread only.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
import xxhash
from torch.utils.data import ConcatDataset, Subset, default_collate

from paceline.data.source import Records, Source, describe_item, require_records
from paceline.errors import UsageError

Collate = Callable[[list[Any]], Any]


@final
class MapSource(Source):
    """Any map-style data set, read by ``__getitems__`` if it has that.

    Args:
        dataset: its items are what its own code makes of them; its errors pass through.
        collate: list of items -> batch; torch's `default_collate` if None.

    Raises:
        UsageError: no record.
    """

    def __init__(self, dataset: Any, collate: Collate | None = None) -> None:  # noqa: ANN401  (a user's data set: duck typed, as torch does)
        self.dataset = dataset
        self.collate = collate or default_collate
        require_records(len(dataset))

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """What ``collate`` makes of the items; an error of an item says which it was."""
        return self.collate(read_items(self.dataset, records.tolist()))

    def fingerprint(self) -> str:
        """What it is, as `describe_dataset` has it, and the number of records."""
        return describe_dataset(self.dataset, 0)


def read_items(dataset: Any, indices: Sequence[int]) -> list[Any]:  # noqa: ANN401  (see MapSource)
    """The items at these indices, in this order; an error of one says which it was."""
    if type(dataset) is Subset:
        return read_items(dataset.dataset, [dataset.indices[i] for i in indices])
    if type(dataset) is ConcatDataset:
        return _read_parts(dataset, indices)
    index: object = list(indices)
    try:
        read_many = getattr(dataset, "__getitems__", None)
        if read_many is not None:
            found: list[Any] = read_many(index)
            return found
        items = []
        for index in indices:
            items.append(dataset[index])
    except Exception as error:
        error.add_note(f"reading record {index} of {type(dataset).__name__}")
        raise
    return items


def _read_parts(dataset: "ConcatDataset[Any]", indices: Sequence[int]) -> list[Any]:
    """The items of a chain of data sets, each of them asked once."""
    places: dict[int, list[int]] = {}  # {data set: places in indices}
    at = [index + len(dataset) if index < 0 else index for index in indices]
    for place, index in enumerate(at):
        if not 0 <= index < len(dataset):
            raise IndexError(f"record {indices[place]} of {len(dataset)}")
        places.setdefault(bisect_right(dataset.cumulative_sizes, index), []).append(place)
    found: list[Any] = [None] * len(indices)
    for part, theirs in places.items():
        first = dataset.cumulative_sizes[part - 1] if part else 0
        below = [at[place] - first for place in theirs]
        items = read_items(dataset.datasets[part], below)
        for place, item in zip(theirs, items, strict=True):
            found[place] = item
    return found


def leaves(dataset: object) -> Iterator[object]:
    """The data sets below every `Subset` and `ConcatDataset`."""
    if type(dataset) is Subset:
        yield from leaves(dataset.dataset)
    elif type(dataset) is ConcatDataset:
        for part in dataset.datasets:
            yield from leaves(part)
    else:
        yield dataset


def describe_dataset(dataset: Any, index: int) -> str:  # noqa: ANN401  (see MapSource)
    """One line of a data set: its type, the shapes and dtypes of a record, its length.

    Reads that record, without drawing from torch's random numbers. A source of ours says
    it better than its first record; of a `Subset` the indices count too.
    """
    if isinstance(dataset, Source):
        return dataset.fingerprint()
    if type(dataset) is Subset:
        below = describe_dataset(dataset.dataset, dataset.indices[index])
        return f"Subset of ({below}), {describe_indices(dataset.indices)}"
    if type(dataset) is ConcatDataset:
        parts: list[Any] = dataset.datasets  # Any: torch's type has no length
        parts = [part for part in parts if len(part)]
        below = "; ".join(describe_dataset(part, 0) for part in parts)
        return f"ConcatDataset of ({below})"
    # A random augmentation must not shift the numbers that the user's loop will draw.
    with torch.random.fork_rng(devices=[]):
        first = describe_item(dataset[index])
    kind = type(dataset)
    return f"{kind.__module__}.{kind.__qualname__} {first} x {len(dataset)}"


def describe_indices(indices: Sequence[Any]) -> str:
    """A hash of the indices of a `Subset`, and how many they are."""
    chosen = np.asarray(indices)
    if chosen.dtype.kind in "iu":
        told = chosen.astype(np.int64).tobytes()
    else:
        told = repr(chosen.tolist()).encode()
    return f"indices xxh3 {xxhash.xxh3_64(told).hexdigest()} x {len(chosen)}"


@final
class PickedSource(Source):
    """Records of another source by index, in any order, repeated or not: a `Subset` of it.

    Negative indices count from the end. Batches come from the source as whole ones.

    Raises:
        UsageError: no record, an index that the source has not, or a mask.
    """

    def __init__(self, source: Source, indices: Sequence[int]) -> None:
        chosen = np.asarray(indices)
        require_records(len(chosen))
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise UsageError(
                "batches: expected the indices of a Subset to be whole numbers, got "
                f"{chosen.dtype}; of a mask take mask.nonzero()"
            )
        size = len(source)
        outside = chosen[(chosen < -size) | (chosen >= size)]
        if outside.size:
            raise UsageError(
                f"batches: the Subset has index {outside[0]}, its data set {size} records"
            )
        chosen = chosen.astype(np.int64)
        self._source = source
        self._records = np.where(chosen < 0, chosen + size, chosen)

    def __len__(self) -> int:
        return len(self._records)

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """The batch that the source has of these."""
        return self._source.batch(self._records[records])

    def fingerprint(self) -> str:
        """The source's, and a hash of the indices: trainers must pick the same."""
        told = describe_indices(self._records.tolist())
        return f"Subset of ({self._source.fingerprint()}), {told}"
